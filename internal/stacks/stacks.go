// Package stacks finds the stacks of goroutines by their profiler labels, which goroutines inherit from the goroutine that starts them.
package stacks

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
)

const maxStack = 8 << 10 // maximum bytes of the stacks of one label value

// ByLabel returns the stacks of all goroutines with the label, by its value. It ignores goroutines with a frame whose function contains
// one of the excluded texts. It stops the world for a short time.
func ByLabel(label string, exclude ...string) map[string]string {
	var buf bytes.Buffer
	found := make(map[string]string)
	if err := pprof.Lookup("goroutine").WriteTo(&buf, 1); err != nil {
		return found
	}
	for group := range strings.SplitSeq(buf.String(), "\n\n") {
		value, ok := valueOf(group, label)
		excluded := slices.ContainsFunc(exclude, func(text string) bool { return strings.Contains(group, text) })
		if ok && len(found[value]) < maxStack && !excluded {
			found[value] += frames(group)
		}
	}
	return found
}

// valueOf returns the value of a label of a group of goroutines in the profile:
//
//	1 @ 0x43e5c6 0x46b2f1
//	# labels: {"activity":"charge-card", "instance":"order-42", "task":"w-1"}
//	#	0x46b2f0	main.f+0x30	/src/main.go:12
func valueOf(group, label string) (string, bool) {
	_, rest, ok := strings.Cut(group, "\n# labels: {")
	if !ok {
		return "", false
	}
	_, rest, ok = strings.Cut(rest, fmt.Sprintf("%q:\"", label))
	if !ok {
		return "", false
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value, true
}

// frames formats the calls of a group, innermost first, one per line.
func frames(group string) string {
	var b strings.Builder
	count, _, _ := strings.Cut(group, " @")
	fmt.Fprintf(&b, "%s goroutine(s) at\n", strings.TrimSpace(count))
	for line := range strings.SplitSeq(group, "\n") {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] != "#" || !strings.HasPrefix(f[1], "0x") || b.Len() > maxStack {
			continue
		}
		call, _, _ := strings.Cut(f[2], "+0x")
		fmt.Fprintf(&b, "  %s %s\n", call, f[3])
	}
	return b.String()
}
