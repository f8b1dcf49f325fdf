package pawl_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

var hello = pawl.NewOrchestration[string, string]("hello")

func helloAs(version string) pawl.OrchestrationBinding {
	return hello.Do(func(*pawl.Context, string) (string, error) { return version, nil }, pawl.Version(version))
}

func TestVersionsAreComparedByComponent(t *testing.T) {
	for _, ascending := range [][]string{
		{"", "1", "2", "9", "10", "11", "100"},
		{"1.9", "1.10", "1.10.1", "2", "2.0"},
		{"2026-02-01", "2026-02-11", "2026-11-02", "2026-11-20"},
		{"", "1.0", "1.0-rc1", "1.0-rc2", "1.0-rc10", "1.1", "a", "b2", "b10", "v1"},
		{"01", "1", "002", "02", "2"},
		{"18446744073709551616", "18446744073709551617", "100000000000000000000"},
	} {
		bindings := make([]pawl.OrchestrationBinding, 0, len(ascending))
		for _, v := range ascending {
			bindings = append(bindings, helloAs(v))
		}
		rapid.Check(t, func(rt *rapid.T) {
			p, err := author.NewRegistry(rapid.Permutation(bindings).Draw(rt, "bindings")...)
			if err != nil {
				rt.Fatal(err)
			}
			got := p.Versions("hello")
			if slices.Reverse(got); !slices.Equal(got, ascending) {
				rt.Fatalf("in the order %q, want %q", got, ascending)
			}
		})
	}
}

func TestRecordedVersionGovernsAndNewestStarts(t *testing.T) {
	p := must(author.NewRegistry(helloAs(""), helloAs("2"), helloAs("10")))
	for version, want := range map[string]string{"": "", "2": "2", "10": "10"} {
		if b, ok := p.Recorded("hello", version); !ok || b.Version != want || b.Name != "hello" {
			t.Errorf("recorded %q: %q, %t", version, b.Version, ok)
		}
	}
	for version, want := range map[string]string{"": "10", "2": "2"} {
		if b, ok := p.Requested("hello", version); !ok || b.Version != want {
			t.Errorf("requested %q: %q, %t", version, b.Version, ok)
		}
	}
	for _, find := range []func(name, version string) (author.Orchestration, bool){p.Recorded, p.Requested} {
		for _, which := range [][2]string{{"hello", "3"}, {"hallo", ""}, {"hallo", "2"}} {
			if b, ok := find(which[0], which[1]); ok {
				t.Errorf("found %q", b.Version)
			}
		}
	}
	if got := p.Orchestrations(); !slices.Equal(got, []string{"hello"}) || len(p.Versions("hallo")) > 0 {
		t.Errorf("names %v", got)
	}
}

func TestRegistryRejectsDuplicateVersions(t *testing.T) {
	r := must(author.NewRegistry(helloAs("2"), helloAs("10")))
	if b, ok := r.Requested("hello", ""); !ok || b.Version != "10" || len(r.Orchestrations()) != 1 {
		t.Errorf("the newest is %q", b.Version)
	}
	if b, ok := r.Recorded("hello", "2"); !ok || b.Version != "2" {
		t.Errorf("2 is %q", b.Version)
	}
	for _, twice := range [][]pawl.OrchestrationBinding{{helloAs("2"), helloAs("1"), helloAs("2")}, {helloAs(""), helloAs("")}} {
		if _, err := author.NewRegistry(twice...); !errors.Is(err, pawl.ErrDuplicate) {
			t.Error(err)
		}
	}
	if _, err := author.NewRegistry(helloAs("no spaces"), helloAs("1"), helloAs("1")); !errors.Is(err, pawl.ErrBadName) || !errors.Is(err, pawl.ErrDuplicate) {
		t.Error(err)
	}
}

func TestInstanceHasVersionAndParent(t *testing.T) {
	d := replaytest.New(t, author.Program(hello.Do(func(ctx *pawl.Context, _ string) (string, error) {
		if got := pawl.Instance(ctx); got != (pawl.InstanceInfo{Instance: "order-42", Name: "hello", Version: "2", Length: 1, Parent: "p"}) {
			t.Errorf("%+v", got)
		}
		return "", nil
	})), replay.Options{})
	d.Feed(&history.Started{Name: "hello", Version: "2", Payload: must(author.Input(hello).Encode("")), Parent: &history.Parent{Instance: "p"}})
	if d.End().Kind() != history.KindCompleted {
		t.Errorf("ended with %+v", d.End())
	}
}

func TestPatchedIsTrueForNewInstances(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (bool, error) { return pawl.Patched(ctx, "fraud"), nil }, pawl.None{})
	if m, ok := r.History[1].(*history.PatchMarked); !ok || m.Name != "fraud" || !r.result() {
		t.Errorf("made %+v", r.History[1])
	}
}
