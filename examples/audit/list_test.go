package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestListingNamesOnlyPackages(t *testing.T) {
	got, err := List(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".", ".hidden", "_gen", "alpha", "alpha/deep", "alpha-beta", "broken", "dir.go", "zeta", "zeta/with space"}
	if !slices.Equal(got.Packages, want) {
		t.Errorf("packages\n got %q\nwant %q", got.Packages, want)
	}
	if len(got.Problems) != 0 {
		t.Errorf("problems: %v", got.Problems)
	}
}

func TestPagesOfAnySizeMakeTheSameListing(t *testing.T) {
	root := sample(t)
	want, err := List(root)
	if err != nil {
		t.Fatal(err)
	}
	for limit := 1; limit <= len(want.Packages)+1; limit++ {
		var got []string
		for next, first := "", true; first || next != ""; first = false {
			p, err := ListPage(root, next, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Packages) > limit {
				t.Fatalf("a page of %d for a limit of %d", len(p.Packages), limit)
			}
			got, next = append(got, p.Packages...), p.Next
		}
		if !slices.Equal(got, want.Packages) {
			t.Errorf("limit %d:\n got %q\nwant %q", limit, got, want.Packages)
		}
	}
}

func TestListingThroughALinkIsThatOfItsTarget(t *testing.T) {
	root := sample(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	a, errA := List(root)
	b, errB := List(link)
	if errA != nil || errB != nil || !slices.Equal(a.Packages, b.Packages) {
		t.Errorf("%v, %v; %q, %q", errA, errB, a.Packages, b.Packages)
	}
}

func TestPageContinuesAfterADeletedPackage(t *testing.T) {
	root := tree(t, map[string]string{"a/a.go": "package a", "b/b.go": "package b", "b/c/c.go": "package c", "d/d.go": "package d"})
	if err := os.RemoveAll(filepath.Join(root, "b")); err != nil {
		t.Fatal(err)
	}
	p, err := ListPage(root, "b", 10)
	if err != nil || !slices.Equal(p.Packages, []string{"d"}) {
		t.Errorf("%q, %v", p.Packages, err)
	}
}

func TestUnreadableDirectoryIsNamed(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	root := tree(t, map[string]string{"a/a.go": "package a", "b/b.go": "package b"})
	if err := os.Chmod(filepath.Join(root, "a"), 0); err != nil {
		t.Fatal(err)
	}
	p, err := List(root)
	if err != nil || !slices.Equal(p.Packages, []string{"b"}) || len(p.Problems) != 1 || p.Problems[0].Path != "a" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestListingOfAFileIsAnError(t *testing.T) {
	root := tree(t, map[string]string{"file": "x"})
	for _, dir := range []string{filepath.Join(root, "missing"), filepath.Join(root, "file")} {
		_, err := List(dir)
		if !errors.Is(err, ErrNoDirectory) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestPagesOfLongNamesFitIntoAPayload(t *testing.T) {
	root, deep := t.TempDir(), strings.Repeat("d", 100)
	const n = MaxPageEntries + 500
	for i := range n {
		dir := filepath.Join(root, fmt.Sprintf("g%02d", i%50), fmt.Sprintf("%s%05d", deep, i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "p.go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	seen, pages := map[string]bool{}, 0
	for next := ""; pages == 0 || next != ""; pages++ {
		p, err := ListPage(root, next, MaxPageEntries)
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, pkg := range p.Packages {
			seen[pkg] = true
			size += len(pkg) + 5
		}
		if size > 512<<10 {
			t.Errorf("page %d has %d bytes", pages, size)
		}
		next = p.Next
	}
	if len(seen) != n {
		t.Errorf("%d packages in %d pages, want %d", len(seen), pages, n)
	}
}
