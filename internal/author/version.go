package author

import (
	"cmp"
	"strings"
)

// compareVersions orders versions from the oldest to the newest; see pawl.Version. Versions are equal only if their texts are.
func compareVersions(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		p, q := component(x), component(y)
		x, y = x[len(p):], y[len(q):]
		if isDigit(p[0]) && isDigit(q[0]) {
			n, m := strings.TrimLeft(p, "0"), strings.TrimLeft(q, "0")
			if c := cmp.Or(cmp.Compare(len(n), len(m)), cmp.Compare(n, m)); c != 0 {
				return c
			}
		} else if p != q {
			return cmp.Compare(p, q)
		}
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// component returns the digits at the beginning of s, or its first byte.
func component(s string) string {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return s[:max(n, 1)]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
