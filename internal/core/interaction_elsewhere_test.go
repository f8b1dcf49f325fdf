package core_test

import (
	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/pool"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/turn"
)

// elsewherePrograms returns the orchestrations of the other process.
func elsewherePrograms() (*author.Registry, error) {
	shipped, reserve := pawl.NewEvent[string]("shipped"), pawl.NewActivity[string, string]("reserve")
	approve := pawl.NewUpdate[string, string]("approve")
	remote := pawl.NewOrchestration[string, string]("remote").Do(func(ctx *pawl.Context, in string) (string, error) {
		if err := approve.Validate(ctx, func(string) error { return pawl.NewError("never") }); err != nil {
			return "", err
		}
		if _, err := shipped.Receive(ctx); err != nil {
			return "", err
		}
		return reserve.Call(ctx, in)
	}, pawl.Version("7"))
	bounded := pawl.NewOrchestration[string, string]("remote-bounded", pawl.Concurrency(1)).Do(func(_ *pawl.Context, in string) (string, error) { return in, nil })
	return author.NewRegistry(remote, bounded)
}

// findCode returns the answer of the other process to a search.
func (x *interaction) findCode(n core.CodeName, how string) *core.FoundCode {
	programs, err := elsewherePrograms()
	if err != nil {
		x.t.Fatal(err)
	}
	b, ok := programs.Requested(n.Name, n.Version)
	if !ok || how == "missing" {
		return &core.FoundCode{Missing: "no other process has " + n.Name}
	}
	return &core.FoundCode{Version: b.Version, Declared: b.Declared}
}

// turnElsewhere runs a turn in the other process, through the encoded request and answer. That process keeps no code in memory.
func (x *interaction) turnElsewhere(id string, g *core.Given, how string) *core.Decided {
	if how == "missing" {
		return &core.Decided{Missing: "the process that has " + g.Name + " has not answered"}
	}
	programs, err := elsewherePrograms()
	if err != nil {
		x.t.Fatal(err)
	}
	state := x.guests[id]
	if !g.Resident {
		if state, err = core.FoldOf(g.Events); err != nil {
			x.t.Fatal(err)
		}
	}
	x.guests[id] = state
	r, err := pool.DecodeRequest(pool.Request{Turn: &pool.Turn{ID: "t", Given: *g}}.Encode(g.Seal))
	if err != nil {
		x.t.Fatal(err)
	}
	h := &r.Turn.Given
	b, ok := programs.Recorded(h.Name, h.Place.Version)
	if !ok || h.Place.Length != uint64(len(x.of(id).events)) || h.Place.Head != x.of(id).head() {
		x.t.Fatalf("a turn of %s at %+v", id, h.Place)
	}
	h.Program = b.Program
	for _, ev := range x.of(id).events {
		encoded, err := eventcodec.Encode(ev)
		if err != nil {
			x.t.Fatal(err)
		}
		if ev, err = eventcodec.Decode(ev.Meta().ID, encoded); err != nil {
			x.t.Fatal(err)
		}
		h.Events = append(h.Events, ev)
	}
	code, err := turn.Replay(h, replay.New(h.Identity, h.Program, replay.Options{}))
	if err != nil {
		x.t.Fatal(err)
	}
	answer, err := pool.DecodeAnswer(pool.AnswerOf(h, turn.Decide(h, code), replay.Awaited{}).Encode())
	if err != nil {
		x.t.Fatal(err)
	}
	_ = code.Exec.Evict()
	return answer.Decided(g, state)
}
