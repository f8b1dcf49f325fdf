// Command luacheck runs luacheck on the Lua scripts of a tree in the form that Redis executes: compiled together with the shared functions.
// It also reports scripts that are not formatted. With -w it only formats them.
//
//	go run ./internal/luacheck [-w] .
//
// Exit status: 0 nothing found, 1 something found, 2 the check could not run.
package main

import (
	"bytes"
	"errors"
	"flag"
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
	write := flag.Bool("w", false, "format the scripts")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: luacheck [-w] DIRECTORY")
		os.Exit(2)
	}
	found, err := layouts(flag.Arg(0), *write)
	if err == nil && !*write {
		var more []string
		more, err = check(flag.Arg(0))
		found = append(found, more...)
	}
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

// layouts returns the scripts of a tree that are not formatted, or formats them.
func layouts(root string, write bool) ([]string, error) {
	files, err := scripts(root)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, path := range files {
		script, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		text, err := layout(script)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		case bytes.Equal(text, script):
		case write:
			if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // a source file
				return nil, err
			}
		default:
			found = append(found, path+": not formatted: go run ./internal/luacheck -w .")
		}
	}
	return found, nil
}

// scripts returns the Lua files of a tree.
func scripts(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".lua" {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// library is the name of the file that the scripts of a directory share. It is prepended to scripts that declare no keys.
const library = "common.lua"

// check returns the warnings of luacheck about the scripts of a tree.
func check(root string) ([]string, error) {
	if _, err := exec.LookPath("luacheck"); err != nil {
		return nil, fmt.Errorf("%w: make setup installs it (Debian: lua-check)", err)
	}
	dir, err := os.MkdirTemp("", "luacheck")
	if err != nil {
		return nil, fmt.Errorf("temporary directory: %w", err)
	}
	defer os.RemoveAll(dir)
	paths, err := scripts(root)
	if err != nil {
		return nil, err
	}
	var files []source
	for _, path := range paths {
		if base := filepath.Base(path); base == library || base == "prelude.lua" {
			continue
		}
		s, err := compile(path, filepath.Join(dir, strconv.Itoa(len(files))+".lua"))
		if err != nil {
			return nil, fmt.Errorf("compile: %w", err)
		}
		files = append(files, s)
	}
	return run(files)
}

// source is a script of the tree and its compiled form, which is checked.
type source struct {
	path, compiled string
	offset         int // lines before the first line of the script
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

// run checks all scripts at once. It ignores warnings about shared functions that a script does not use.
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
