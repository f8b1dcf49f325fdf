package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
)

// contexts are named sets of connection flags, stored in a file in the user's configuration directory.
type contexts struct {
	Current  string                       `json:"current,omitempty"`
	Contexts map[string]map[string]string `json:"contexts"` // name → flag → value
}

func contextsFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the configuration directory: %w", err)
	}
	return filepath.Join(dir, "pawl", "contexts.json"), nil
}

// readContexts reads the file. Without a file there are no contexts.
func readContexts() (contexts, error) {
	all := contexts{Contexts: map[string]map[string]string{}}
	file, err := contextsFile()
	if err != nil {
		return all, nil //nolint:nilerr // a process without a home directory has no contexts
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		return all, fmt.Errorf("read the contexts in %s: %w", file, err)
	}
	return all, nil
}

func (all contexts) write() error {
	file, err := contextsFile()
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = os.WriteFile(file, append(b, '\n'), 0o600) // a URL can contain a password
	}
	if err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	return nil
}

// selected returns the flags of the context that PAWL_CONTEXT names, or of the current one.
func (all contexts) selected() (map[string]string, error) {
	name, from := os.Getenv("PAWL_CONTEXT"), "PAWL_CONTEXT"
	if name == "" {
		name, from = all.Current, "the current context"
	}
	if name == "" {
		return map[string]string{}, nil
	}
	flags, ok := all.Contexts[name]
	if !ok {
		return nil, fmt.Errorf("%s is %s, which does not exist; see \"pawl context list\"", from, name)
	}
	if nc := flags["nats-context"]; nc != "" {
		return natsContext(nc, flags)
	}
	return flags, nil
}

// natsContext returns the settings of a context of the nats command line tool, overridden by the flags in own.
func natsContext(name string, own map[string]string) (map[string]string, error) {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" { // the nats tool uses this directory on every system
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("read the NATS context %s: %w", name, err)
		}
		dir = filepath.Join(home, ".config")
	}
	b, err := os.ReadFile(filepath.Join(dir, "nats", "context", name+".json")) //nolint:gosec // the user's own file
	var c map[string]any
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return nil, fmt.Errorf("read the NATS context %s: %w", name, err)
	}
	text := func(field string) string { s, _ := c[field].(string); return s }
	for _, field := range []string{"jetstream_api_prefix", "jetstream_domain", "nsc", "socks_proxy", "user_jwt"} {
		if text(field) != "" {
			return nil, fmt.Errorf("the NATS context %s has the setting %s, which pawl does not support", name, field)
		}
	}
	all := map[string]string{
		"nats": withUser(text("url"), text("user"), text("password"), text("token")), "nats-creds": text("creds"), "nats-nkey": text("nkey"),
		"nats-cert": text("cert"), "nats-key": text("key"), "nats-ca": text("ca"), "nats-inbox-prefix": text("inbox_prefix"),
	}
	maps.DeleteFunc(all, func(_, v string) bool { return v == "" })
	maps.Copy(all, own)
	return all, nil
}

// withUser adds the credentials to the URLs of servers, which are separated by commas.
func withUser(urls, user, password, token string) string {
	info := url.UserPassword(user, password)
	switch {
	case token != "":
		info = url.User(token)
	case user == "":
		return urls
	}
	all := strings.Split(cmp.Or(urls, nats.DefaultURL), ",")
	for i, server := range all {
		scheme, host, ok := strings.Cut(strings.TrimSpace(server), "://")
		if !ok {
			scheme, host = "nats", scheme
		}
		if !strings.Contains(host, "@") { // credentials in the URL take precedence
			host = info.String() + "@" + host
		}
		all[i] = scheme + "://" + host
	}
	return strings.Join(all, ",")
}

// contextFlags returns a resolver that takes connection flags from the selected context. Flags and environment variables take precedence.
// Commands that start servers of their own, and commands on contexts, do not use it. failed returns the error of reading the context, if the
// command needs the context: kong would report it as the error of a flag.
func contextFlags() (flags kong.Resolver, failed func() error) {
	selected := sync.OnceValues(func() (map[string]string, error) {
		all, err := readContexts()
		if err != nil {
			return nil, err
		}
		return all.selected()
	})
	var needed error
	return kong.ResolverFunc(func(c *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		for _, env := range flag.Envs {
			if _, ok := os.LookupEnv(env); ok {
				return nil, nil // the variable takes precedence
			}
		}
		command := c.Selected()
		own := command != nil && (command.Hidden || command.Parent.Name == "context" || slices.Contains([]string{"dev", "demo", "bench"}, command.Name))
		if own || !slices.Contains(contextFlagNames, flag.Name) {
			return nil, nil // not from a context
		}
		flags, err := selected()
		if needed = err; err != nil {
			return nil, nil //nolint:nilerr // reported by failed
		}
		if value, ok := flags[flag.Name]; ok {
			return value, nil
		}
		return nil, nil // not in the context
	}), func() error { return needed }
}

// contextFlagNames are the flags that a context can set.
var contextFlagNames = []string{
	"namespace", "nats", "nats-user", "nats-password-file", "nats-creds", "nats-nkey", "nats-inbox-prefix", "nats-ca", "nats-cert", "nats-key",
	"redis", "redis-user", "redis-password-file", "redis-ca", "redis-cert", "redis-key",
}

type contextCmd struct {
	Add  contextAddCmd  `cmd:"" help:"Add or replace a context."`
	Use  contextUseCmd  `cmd:"" help:"Make a context the current one."`
	List contextListCmd `cmd:"" help:"List the contexts."`
}

type contextAddCmd struct {
	Name  string   `arg:"" help:"Name of the context."`
	NATS  string   `name:"nats-context" placeholder:"NAME" help:"Use the server and the credentials of this context of the nats command line tool."`
	URL   string   `name:"nats" hidden:"" help:"Not a flag of this command: see AfterApply."`
	Flags []string `name:"set" short:"s" sep:"none" placeholder:"FLAG=VALUE" help:"Connection flag of the context, such as nats=nats://example:4222; repeatable."`
}

// AfterApply advises how to set the server, which other commands set with --nats.
func (c *contextAddCmd) AfterApply() error {
	if c.URL != "" {
		return fmt.Errorf("--nats is a setting of the context: --set nats=%s", settings.URL(c.URL))
	}
	return nil
}

// Run adds a context. The first one becomes the current one.
func (c *contextAddCmd) Run(s streams) error {
	if err := pawl.ValidateName(c.Name); err != nil {
		return settings.Usage(err)
	}
	flags := map[string]string{}
	if c.NATS != "" {
		flags["nats-context"] = c.NATS
	}
	for _, f := range c.Flags {
		name, value, ok := cutFlag(f)
		if !ok {
			return settings.Usage(fmt.Errorf("--set %s: must be FLAG=VALUE, and FLAG one of %s", name, strings.Join(contextFlagNames, ", ")))
		}
		flags[name] = value
	}
	all, err := readContexts()
	if err != nil {
		return err
	}
	all.Contexts[c.Name] = flags
	if all.Current == "" {
		all.Current = c.Name
	}
	if err := all.write(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s: added\n", c.Name)
	return err
}

type contextUseCmd struct {
	Name string `arg:"" help:"Name of the context."`
}

// Run selects a context.
func (c *contextUseCmd) Run(s streams) error {
	all, err := readContexts()
	if err != nil {
		return err
	}
	if _, ok := all.Contexts[c.Name]; !ok {
		return fmt.Errorf("there is no context %s; see \"pawl context list\"", c.Name)
	}
	all.Current = c.Name
	if err := all.write(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s: current\n", c.Name)
	return err
}

type contextListCmd struct {
	JSON bool `name:"json" help:"Write one JSON object per context."`
}

// Run lists the contexts, without secrets.
func (c *contextListCmd) Run(s streams) error {
	all, err := readContexts()
	if err != nil {
		return err
	}
	t := &term.Table{Header: []string{"CURRENT", "NAME", "SETTINGS"}, Fold: 3}
	for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
		current := ""
		if name == all.Current {
			current = "*"
		}
		if c.JSON {
			shown := map[string]string{}
			for flag, value := range all.Contexts[name] {
				shown[flag] = fmt.Sprint(settings.URL(value))
			}
			if err := writeJSON(s.out, map[string]any{"name": name, "current": current != "", "settings": shown}); err != nil {
				return err
			}
			continue
		}
		var flags []string
		for _, flag := range slices.Sorted(maps.Keys(all.Contexts[name])) {
			flags = append(flags, fmt.Sprintf("%s=%s", flag, settings.URL(all.Contexts[name][flag])))
		}
		t.Add(current, name, strings.Join(flags, " "))
	}
	if c.JSON {
		return nil
	}
	return t.WriteOr(s.out, "There are no contexts.")
}
