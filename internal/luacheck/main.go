// Command luacheck runs luacheck on the Lua scripts of a tree as Redis gets them: compiled, with what they share.
//
//	go run ./internal/luacheck .
//
// Exit status: 0 nothing found, 1 something found, 2 the check could not run.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/redisx"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: luacheck DIRECTORY")
		os.Exit(2)
	}
	found, err := check(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "luacheck:", err)
		os.Exit(2)
	}
	for _, f := range found {
		fmt.Fprintln(os.Stdout, f)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// library is the name of the file that the scripts of a directory share; it is in front of those that declare no keys.
const library = "common.lua"

// check returns what luacheck reports on the scripts of a tree.
func check(root string) ([]string, error) {
	if _, err := exec.LookPath("luacheck"); err != nil {
		return nil, fmt.Errorf("%w: make setup installs it (Debian: lua-check)", err)
	}
	dir, err := os.MkdirTemp("", "luacheck")
	if err != nil {
		return nil, fmt.Errorf("temporary directory: %w", err)
	}
	defer os.RemoveAll(dir)
	var files []source
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { //nolint:gosec // the tree that the caller names
		if err != nil || d.IsDir() || filepath.Ext(path) != ".lua" || filepath.Base(path) == library || filepath.Base(path) == "prelude.lua" {
			return err
		}
		s, err := compile(path, filepath.Join(dir, strconv.Itoa(len(files))+".lua"))
		files = append(files, s)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	return run(files)
}

// source is a script of the tree and the compiled one that is checked.
type source struct {
	path, compiled string
	offset         int // lines in front of the script's own
}

func compile(path, compiled string) (source, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return source{}, err
	}
	var shared []byte
	if !strings.Contains(string(body), "--! keys") {
		if shared, err = os.ReadFile(filepath.Join(filepath.Dir(path), library)); err != nil {
			return source{}, err
		}
	}
	s, err := redisx.Compile(filepath.Base(path), string(shared), string(body))
	if err != nil {
		return source{}, err
	}
	offset := strings.Count(s.Source(), "\n") - strings.Count(string(body), "\n")
	return source{path, compiled, offset}, os.WriteFile(compiled, []byte(s.Source()), 0o600) //nolint:gosec // in the temporary directory
}

var warning = regexp.MustCompile(`^(.+?):(\d+):(\d+): (.*)$`)

// run checks all scripts at once. What a script does not use of the shared functions is no finding.
func run(files []source) ([]string, error) {
	args := []string{"--std", "lua51", "--read-globals", "redis", "cjson", "KEYS", "ARGV", "--no-max-line-length", "--formatter", "plain", "--codes", "--"}
	byFile := make(map[string]source)
	for _, f := range files {
		args, byFile[f.compiled] = append(args, f.compiled), f
	}
	out, err := exec.Command("luacheck", args...).Output() //nolint:noctx // a short run
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 2) {
		return nil, fmt.Errorf("run: %w: %s", err, out)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		m := warning.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		f := byFile[m[1]]
		n, _ := strconv.Atoi(m[2])
		switch own := n > f.offset; {
		case own:
			found = append(found, fmt.Sprintf("%s:%d:%s: %s", f.path, n-f.offset, m[3], m[4]))
		case !strings.HasPrefix(m[4], "(W211)"):
			found = append(found, fmt.Sprintf("%s: line %d of its compiled source: %s", f.path, n, m[4]))
		}
	}
	return found, nil
}
