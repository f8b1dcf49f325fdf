package replay_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pkg/history"
)

// A lost turn is decided again, with the same payload for another receiver or parent. If the second decision reused the object of
// the first, the object would be removed with the owners of the first while the second still refers to it. A replay computes the same
// names without reading an object.
func TestObjectOfADecisionDependsOnItsOwners(t *testing.T) {
	c, err := sealing.New(sealing.Options{Store: true})
	if err != nil {
		t.Fatal(err)
	}
	large := history.Payload{Type: history.TypeJSON, Data: bytes.Repeat([]byte("0"), 1<<20)}
	run := func(receiver, parent string, child bool) []sealing.Object {
		opts := replay.Options{Codec: c, Strict: true, Load: func(string, int, int) ([]byte, error) {
			t.Error("a replay reads an object")
			return nil, sealing.ErrNotLoaded
		}}
		code := replay.Program(func(x *replay.Code) replay.Ending {
			if child {
				if err := x.Launch(replay.Child{Name: "c", Instance: receiver}, large, nil); err != nil {
					t.Error(err)
				}
			} else if err := x.Send(receiver, "event", large, nil); err != nil {
				t.Error(err)
			}
			return replay.Ending{Result: large}
		})
		id := effectid.Identity{Instance: "i", Execution: 1}
		x := replay.New(id, code, opts)
		if _, err := x.Apply(&history.Started{Name: "o", Parent: &history.Parent{Instance: parent}}); err != nil {
			t.Fatal(err)
		}
		objects := replay.TakeObjects(x)
		if err := replay.New(id, code, opts).Replay(x.Take()); err != nil || len(objects) != 2 {
			t.Fatalf("%d objects, replay: %v", len(objects), err)
		}
		if sent, end := fmt.Sprint(objects[0].Owners), fmt.Sprint(objects[1].Owners); sent != fmt.Sprint([]string{receiver, "i"}) || end != fmt.Sprint([]string{"i", parent}) {
			t.Errorf("owners: %s and %s", sent, end)
		}
		return objects
	}
	for _, child := range []bool{false, true} {
		first, again, other := run("a", "p", child), run("a", "p", child), run("b", "q", child)
		for n, o := range first {
			if o.Name != again[n].Name || !slices.Equal(o.Owners, again[n].Owners) {
				t.Errorf("decided again: %s, then %s", o.Name, again[n].Name)
			}
			if o.Name == other[n].Name {
				t.Errorf("%s has the owners %q and %q", o.Name, o.Owners, other[n].Owners)
			}
		}
	}
}

// If a key or the setting is missing, another owner may take over the partition. An error of the object store is the same for all owners.
func TestErrorOfTheObjectStoreIsDistinctFromAMissingKey(t *testing.T) {
	c, err := sealing.New(sealing.Options{Store: true})
	if err != nil {
		t.Fatal(err)
	}
	sealed, _ := c.SealStored(sealing.ByClient, history.Payload{Type: history.TypeJSON, Data: bytes.Repeat([]byte("0"), 1<<20)})
	for cause, want := range map[error]error{errors.New("no answer"): replay.ErrObject, sealing.ErrNotLoaded: replay.ErrSealed} {
		x := replay.New(effectid.Identity{Instance: "i", Execution: 1}, program(sealedCode), replay.Options{Codec: c, Load: func(string, int, int) ([]byte, error) { return nil, cause }})
		_, err := x.Apply(&history.Started{Name: "o", Payload: sealed})
		if !errors.Is(err, want) || errors.Is(err, replay.ErrSealed) != (want == replay.ErrSealed) {
			t.Errorf("%v: %v, want %v", cause, err, want)
		}
	}
}
