// Package stacks finds the stacks of goroutines by their profiler labels, which goroutines inherit from the goroutine that starts them.
package stacks

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"
)

const maxStack = 8 << 10 // bytes of the stacks of one label

// ByLabel returns the stacks of all goroutines that have the label, by its value, without goroutines that have a frame whose function
// contains one of the excluded texts. It stops the world for a short time.
func ByLabel(label string, exclude ...string) map[string]string {
	var buf bytes.Buffer
	found := make(map[string]string)
	if err := pprof.Lookup("goroutine").WriteTo(&buf, 1); err != nil {
		return found
	}
	for group := range strings.SplitSeq(buf.String(), "\n\n") {
		value, ok := valueOf(group, label)
		if ok && len(found[value]) < maxStack && !containsAny(group, exclude) {
			found[value] += frames(group)
		}
	}
	return found
}

func containsAny(s string, texts []string) bool {
	for _, text := range texts {
		if strings.Contains(s, text) {
			return true
		}
	}
	return false
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

// frames returns the calls of a group, innermost first, one per line.
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
