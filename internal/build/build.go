// Package build describes the build of the process.
package build

import (
	"cmp"
	"runtime/debug"
	"slices"
)

// version is set by the linker: -ldflags "-X github.com/pawlrun/pawl/internal/build.version=v1.2.3".
var version string

// Info is the build of the process.
type Info struct {
	Version  string // "(devel)" unless it was set by the linker or the module was installed by version
	Revision string // of the repository
	Go       string
}

// Read returns the build of the process. Unknown fields are "unknown".
func Read() Info {
	out := Info{Version: cmp.Or(version, "unknown"), Revision: "unknown", Go: "unknown"}
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	out.Version, out.Go = cmp.Or(version, b.Main.Version, "unknown"), b.GoVersion
	if i := slices.IndexFunc(b.Settings, func(s debug.BuildSetting) bool { return s.Key == "vcs.revision" }); i >= 0 {
		out.Revision = b.Settings[i].Value
	}
	return out
}
