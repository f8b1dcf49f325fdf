package vet

import (
	"go/types"
	"path"
	"strings"
)

// entry is the hazard of some names of a package. Names are separated by spaces, and a star matches any letters. A method is named with
// its type: "DB.*".
type entry struct {
	pkg   string
	names string
	hazard
}

// free is the kind of an entry that is an exception from the entries after it.
const free kind = ""

// catalogue contains the entries by package path. The first entry that matches applies.
type catalogue map[string][]entry

func newCatalogue() catalogue {
	c := make(catalogue)
	for _, list := range [][]entry{clocks(), randomness(), guards(), world(), machine(), identifiers()} {
		for _, e := range list {
			c[e.pkg] = append(c[e.pkg], e)
		}
	}
	return c
}

// lookup returns the hazard of an object. known reports whether the catalogue contains the object, including free ones.
func (c catalogue) lookup(obj types.Object) (h hazard, known bool) {
	pkg, name := symbol(obj)
	if name == "" {
		return hazard{}, false
	}
	pkg = unversioned(pkg)
	for _, e := range c[pkg] {
		for pattern := range strings.FieldsSeq(e.names) {
			if ok, _ := path.Match(pattern, name); ok {
				h = e.hazard
				h.what = display(pkg) + "." + name
				return h, true
			}
		}
	}
	return hazard{}, false
}

// unversioned removes the major version from the end of a path.
func unversioned(pkg string) string {
	i := strings.LastIndexAny(pkg, "/.")
	if i < 0 || i+2 > len(pkg) || pkg[i+1] != 'v' || strings.Trim(pkg[i+2:], "0123456789") != "" || pkg[i+2:] == "" {
		return pkg
	}
	return pkg[:i]
}

// display shortens the path of a package outside the standard library to its last element.
func display(pkg string) string {
	if standard(pkg) {
		return pkg
	}
	return path.Base(pkg)
}
