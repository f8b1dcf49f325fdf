package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
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

// Run writes the commands and flags that can follow the words, one per line.
func (c *completeCmd) Run(s streams, app *kong.Kong) error {
	node := app.Model.Node
	for _, word := range c.Words {
		if i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word && !n.Hidden }); i >= 0 {
			node = node.Children[i]
		}
	}
	var all []string
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
	_, err := fmt.Fprintln(s.out, strings.Join(all, "\n"))
	return err
}

type versionCmd struct{}

// Run writes the version.
func (c *versionCmd) Run(s streams) error {
	_, err := fmt.Fprintln(s.out, version())
	return err
}

// cutFlag splits FLAG=VALUE, and reports whether a context can set the flag.
func cutFlag(text string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(strings.TrimLeft(text, "-"), "=")
	return name, value, ok && slices.Contains(contextFlagNames, name)
}
