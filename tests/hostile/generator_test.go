package hostile

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
)

// generator generates hostile messages. It is deterministic for a seed and a set of real messages.
type generator struct {
	rng       *rand.Rand
	captured  map[string][]*nats.Msg
	kinds     []string
	bodies    [][]byte
	targets   []string // instances that may end in any way
	unchanged []string // instances that must not be changed
	counts    map[string]int
}

func newGenerator(seed uint64, captured map[string][]*nats.Msg, targets, unchanged []string) *generator {
	return &generator{
		rng: rand.New(rand.NewPCG(seed, seed)), captured: captured, targets: targets, unchanged: unchanged, counts: map[string]int{},
		bodies: slices.Collect(maps.Values(bodies)),
		kinds:  []string{"to", "to", "own", "task", "doorbell", "doorbell", "hint", "request", "limit", "owner", "notice", "workers", "other"},
	}
}

func pick[T any](g *generator, of ...T) T { return of[g.rng.IntN(len(of))] }

// message returns the next message.
func (g *generator) message() *nats.Msg {
	kind := pick(g, g.kinds...)
	g.counts[kind]++
	m := &nats.Msg{Subject: g.subject(kind), Header: g.header(kind), Data: g.body(kind)}
	if g.rng.IntN(4) == 0 {
		m.Reply = pick(g, "_INBOX.absent", "pawl."+namespace+".to.reply.cancel", "$JS.API.STREAM.DELETE.PAWL-"+namespace+"-INPUTS")
	}
	return m
}

func (g *generator) subject(kind string) string {
	root := "pawl." + namespace + "."
	part := pick(g, "0", "1", "2", "3", "4", "5", "6", "7", "8", "-1", "99999999999999999999")
	switch kind {
	case "to", "own":
		switch g.rng.IntN(10) {
		case 0: // subjects that a client may use for any instance
			return root + kind + "." + pick(g, g.targets...) + "." + pick(g, "start.approve-expense", "start.fanout", "event.verdict", "event.x", "cancel", "purge", "done", "none")
		case 1: // subjects without an effect on an existing instance
			return root + kind + "." + pick(g, g.unchanged...) + "." + pick(g, "start.approve-expense", "start.fanout", "done", "start", "none")
		}
		id := pick(g, fmt.Sprint("i-", g.rng.IntN(2000)), "x", strings.Repeat("i", 200), strings.Repeat("i", 300), "a%20b", "{}", "ä")
		return root + kind + "." + id + "." + pick(g, "start.bill-tenant", "start.tenant", "start.fanout", "start.no-such", "event.used", "event.x", "cancel", "purge", "done", "start", "none", "start.a.b.c")
	case "task":
		return root + "task." + pick(g, "greet", "payments", "no=such")
	case "hint":
		if captured := g.captured[kind]; len(captured) > 0 {
			return pick(g, captured...).Subject
		}
		return root + "hint.w"
	case "request":
		return root + "request." + part + "." + pick(g, "read", "read", "admin", "nonsense")
	case "notice", "workers":
		return root + kind
	case "other":
		return root + pick(g, "in."+part+".to.i.cancel", "x", "to.i", "done.x", strings.Repeat("deep.", 40)+"x")
	default:
		return root + kind + "." + part
	}
}

func (g *generator) header(kind string) nats.Header {
	header := nats.Header{}
	if captured := g.captured[kind]; len(captured) > 0 && g.rng.IntN(2) == 0 {
		maps.Copy(header, pick(g, captured...).Header)
	}
	for g.rng.IntN(3) == 0 {
		name := pick(g, "Pawl-Id", "Pawl-By", "Pawl-Reply", "Pawl-Parent", "Pawl-Holds", "Pawl-Event", "Pawl-Split", "Pawl-Version", "Pawl-Reason", "Pawl-Of",
			"Pawl-Orchestration-Version", "Pawl-Event-Type", "Content-Type", "Nats-Msg-Id", "Nats-Expected-Stream")
		header[name] = []string{pick(g, "", "1", "-1", "99999999999999999999", "application/msgpack", "pawl."+namespace+".to.reply.cancel", "$JS.API.INFO", "a\x00b",
			"\x1b[2J", "\xff\xfe", strings.Repeat("x", 100), strings.Repeat("y", g.rng.IntN(20_000)), "race-0", strings.Repeat("/", 300))}
	}
	return header
}

func (g *generator) body(kind string) []byte {
	captured := g.captured[kind]
	switch n := g.rng.IntN(100); {
	case n == 0 && g.rng.IntN(20) == 0: // occasionally a large one
		return bytes.Repeat([]byte{byte(g.rng.Uint32())}, 400<<10)
	case n < 30:
		b := pick(g, g.bodies...)
		if len(b) > 1000 && g.rng.IntN(20) > 0 {
			b = b[:1000]
		}
		return b
	case n < 40 || len(captured) == 0:
		b := make([]byte, g.rng.IntN(200))
		for i := range b {
			b[i] = byte(g.rng.Uint32())
		}
		return b
	case n < 60: // a repeated real message
		return pick(g, captured...).Data
	default: // a modified real message
		b := bytes.Clone(pick(g, captured...).Data)
		for range 1 + g.rng.IntN(3) {
			if len(b) > 0 {
				b[g.rng.IntN(len(b))] = pick(g, 0, 1, 0x7f, 0x80, 0x90, 0xc0, 0xdb, 0xdd, 0xff, byte(g.rng.Uint32()))
			}
		}
		if g.rng.IntN(4) == 0 {
			b = b[:g.rng.IntN(len(b)+1)]
		}
		return b
	}
}
