package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/pawlrun/pawl/internal/build"
)

// completionScripts call pawl complete for the candidates of a command line.
var completionScripts = map[string]string{
	"bash": "_pawl() { COMPREPLY=($(compgen -W \"$(pawl complete -- \"${COMP_WORDS[@]:1:COMP_CWORD-1}\")\" -- \"${COMP_WORDS[COMP_CWORD]}\")); }\ncomplete -o default -F _pawl pawl\n",
	"zsh":  "#compdef pawl\n_pawl() { compadd -- ${(f)\"$(pawl complete -- ${words[2,CURRENT-1]})\"} }\ncompdef _pawl pawl\n",
	"fish": "complete -c pawl -f -a '(pawl complete -- (commandline -opc)[2..-1])'\n",
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: ${enum}."`
}

// Help is shown with the flags.
func (c *completionCmd) Help() string {
	return "Load it with:\n\n  bash: source <(pawl completion bash)\n  zsh:  source <(pawl completion zsh)\n  fish: pawl completion fish | source"
}

// Run writes the script.
func (c *completionCmd) Run(s streams) error {
	_, err := io.WriteString(s.out, completionScripts[c.Shell])
	return err
}

type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run writes what can follow the words, one candidate per line: commands, flags, and the values of an argument or a flag that has a list.
func (c *completeCmd) Run(s streams, app *kong.Kong) error {
	node, args := app.Model.Node, 0
	var value *kong.Flag // the flag whose value follows
	for _, word := range c.Words {
		i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word && !n.Hidden })
		switch {
		case value != nil:
			value = nil
		case strings.HasPrefix(word, "-"):
			value = valueOf(node, word)
		case i >= 0:
			node = node.Children[i]
		default:
			args++
		}
	}
	if value != nil {
		return printCandidates(s, enum(value.Value))
	}
	var all []string
	if args < len(node.Positional) {
		all = enum(node.Positional[args])
	}
	for _, n := range node.Children {
		if !n.Hidden {
			all = append(all, n.Name)
		}
	}
	for n := node; n != nil; n = n.Parent {
		for _, f := range n.Flags {
			if !f.Hidden {
				all = append(all, "--"+f.Name)
			}
		}
	}
	return printCandidates(s, all)
}

// valueOf returns the flag of a word, if its value is the next word, or nil.
func valueOf(node *kong.Node, word string) *kong.Flag {
	for n := node; n != nil; n = n.Parent {
		for _, f := range n.Flags {
			if (word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short)) && !f.IsBool() {
				return f
			}
		}
	}
	return nil
}

// enum returns the values of an argument or a flag that has a list of them.
func enum(v *kong.Value) []string {
	if v.Enum == "" {
		return nil
	}
	return strings.Split(v.Enum, ",")
}

func printCandidates(s streams, all []string) error {
	_, err := fmt.Fprintln(s.out, strings.Join(all, "\n"))
	return err
}

type versionCmd struct {
	JSON bool `name:"json" help:"Write JSON."`
}

// Run writes the version.
func (c *versionCmd) Run(s streams) error {
	b := build.Read()
	return s.answer(c.JSON, map[string]string{"version": b.Version, "revision": b.Revision, "go": b.Go}, "%s", version())
}

// cutFlag splits FLAG=VALUE, and reports whether a context can set the flag.
func cutFlag(text string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(strings.TrimLeft(text, "-"), "=")
	return name, value, ok && slices.Contains(contextFlagNames, name)
}
