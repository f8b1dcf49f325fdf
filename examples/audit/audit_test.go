package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, in Request, as []pawl.ActivityBinding) (Result, error) {
	t.Helper()
	env := pawltest.New(t, Orchestrations()[0])
	for _, a := range as {
		env.Fake(a)
	}
	return pawltest.Run(env, Audit, in)
}

func TestAuditReportsEveryPackageInOrder(t *testing.T) {
	root, out := sample(t), t.TempDir()
	got, err := run(t, Request{Dir: root, Out: out, Parallel: 3}, Activities())
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(got.Report)
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	list, _ := inspectAll(t, root)
	if len(r.Packages) != len(list.Packages) || got.Totals.Packages != len(list.Packages) || got.Totals.Problems != 5 {
		t.Fatalf("%+v", got.Totals)
	}
	for i, s := range r.Packages {
		if s.Package != list.Packages[i] {
			t.Errorf("place %d has %s, want %s", i, s.Package, list.Packages[i])
		}
	}
	if left, _ := filepath.Glob(filepath.Join(out, ".*")); len(left) > 0 {
		t.Errorf("leftovers: %v", left)
	}
}

func TestAuditOfAnEmptyDirectoryFailsByName(t *testing.T) {
	_, err := run(t, Request{Dir: t.TempDir(), Out: t.TempDir()}, Activities())
	if !errors.Is(err, ErrNoPackages) {
		t.Errorf("%v", err)
	}
	_, err = run(t, Request{Dir: "/no/such/dir", Out: t.TempDir()}, Activities())
	if !errors.Is(err, ErrNoDirectory) || !strings.Contains(err.Error(), "/no/such/dir") {
		t.Errorf("%v", err)
	}
}

func TestUnwritableReportFailsTheAudit(t *testing.T) {
	root := tree(t, map[string]string{"a.go": "package a\n"})
	_, err := run(t, Request{Dir: root, Out: filepath.Join(root, "a.go")}, Activities())
	if err == nil || !strings.Contains(err.Error(), "a.go") {
		t.Errorf("%v", err)
	}
}

func TestPackageWhoseInspectionFailsIsNamedAndTheOthersAreReported(t *testing.T) {
	root := sample(t)
	as := Activities()
	for i, a := range as {
		if a.Name() == InspectPackage.Name() {
			as[i] = InspectPackage.Do(panicOn("alpha"))
		}
	}
	got, err := run(t, Request{Dir: root, Out: t.TempDir()}, as)
	if err != nil || got.Totals.Packages != 10 || got.Totals.Problems != 6 {
		t.Errorf("%+v, %v", got.Totals, err)
	}
}

func TestUnreadableDirectoryIsNamedAndCounted(t *testing.T) {
	root, out := tree(t, map[string]string{"a/a.go": "package a\n"}), t.TempDir()
	as := Activities()
	for i, a := range as {
		if a.Name() == ListPackages.Name() {
			as[i] = ListPackages.Do(func(ctx context.Context, in ListRequest) (Page, error) {
				p, err := listPackages(ctx, in)
				p.Problems = append(p.Problems, Problem{Path: "locked", Text: "permission denied"})
				return p, err
			})
		}
	}
	got, err := run(t, Request{Dir: root, Out: out}, as)
	if err != nil || got.Totals.Problems != 1 {
		t.Errorf("%+v, %v", got.Totals, err)
	}
	table, err := os.ReadFile(filepath.Join(out, TableFile))
	if err != nil || !strings.Contains(string(table), "locked") {
		t.Errorf("%s, %v", table, err)
	}
}

func TestPackagesAreListedInTwoPagesAndTwoParts(t *testing.T) {
	root := t.TempDir()
	const page, n = 40, 45
	for i := range n {
		dir := filepath.Join(root, fmt.Sprintf("%04d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pages, parts := 0, 0
	got, err := run(t, Request{Dir: root, Out: t.TempDir()}, append(Activities(),
		ListPackages.Do(func(_ context.Context, in ListRequest) (Page, error) {
			pages++
			return ListPage(in.Dir, in.After, page)
		}),
		InspectPackage.Do(func(_ context.Context, in InspectRequest) (Summary, error) {
			s := Inspect(in.Dir, in.Package)
			s.Problems = append(s.Problems, Problem{Path: in.Package, Text: strings.Repeat("x", 3*maxPartBytes/2/n)})
			return s, nil
		}),
		WritePart.Do(func(ctx context.Context, in PartRequest) (pawl.None, error) {
			parts++
			return writePart(ctx, in)
		})))
	if err != nil || got.Totals.Packages != n || got.Totals.Lines != n || pages != 2 || parts != 2 {
		t.Errorf("%+v in %d pages and %d parts, %v", got.Totals, pages, parts, err)
	}
}
