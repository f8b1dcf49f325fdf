package redisx

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1
	_ "embed"
	"encoding/hex"
)

// prelude is what every script begins with: time, the fence, the next look.
//
//go:embed prelude.lua
var prelude string

// Script is a Lua script with the name it has in errors. Scripts are
// immutable; each package makes its own where it starts.
type Script struct {
	name, source, sha string
}

// NewScript puts the shared prelude before body.
func NewScript(name, body string) *Script {
	src := prelude + body
	sum := sha1.Sum([]byte(src)) //nolint:gosec // see above
	return &Script{name: name, source: src, sha: hex.EncodeToString(sum[:])}
}
