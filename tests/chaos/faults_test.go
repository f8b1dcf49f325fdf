//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/netfault"
	"github.com/pawlrun/pawl/internal/redistest"
)

// fault disturbs some parts of the harness. Faults of different parts overlap.
type fault struct {
	name  string
	parts []string
	do    func(d time.Duration) // starts the fault, waits for the duration, and heals it
}

// maxConcurrent is the maximum number of concurrent faults.
const maxConcurrent = 3

// injectFaults injects faults until ctx ends, and returns when all of them are healed.
func (h *harness) injectFaults(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, maxConcurrent)
	for {
		pause := time.NewTimer(time.Duration(100+h.rng.IntN(700)) * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		f, d := h.choose(), h.duration()
		if !h.take(f) {
			<-slots
			continue
		}
		wg.Go(func() {
			h.recordf("%s begins, for %v", f.name, d)
			f.do(d)
			h.recordf("%s has ended", f.name)
			h.free(f)
			<-slots
		})
	}
}

// duration returns a random duration that is usually shorter than a lease, and sometimes longer.
func (h *harness) duration() time.Duration {
	if h.rng.IntN(5) == 0 {
		return time.Duration(2000+h.rng.IntN(4000)) * time.Millisecond
	}
	return time.Duration(20+h.rng.IntN(1200)) * time.Millisecond
}

func (h *harness) take(f fault) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range f.parts {
		if h.busy[p] {
			return false
		}
	}
	for _, p := range f.parts {
		h.busy[p] = true
	}
	h.faults[f.name]++
	return true
}

func (h *harness) free(f fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range f.parts {
		delete(h.busy, p)
	}
}

// choose returns a random fault of a member, a link or a server.
func (h *harness) choose() fault {
	m := h.members[h.rng.IntN(len(h.members))]
	all := h.memberFaults(m)
	switch n := h.rng.IntN(10); {
	case n < 3:
		all = h.serverFaults()
	case n == 3:
		all = []fault{killAll(h, h.rng.IntN(2) == 0)}
	case n == 4:
		if special := h.topologyFaults(); len(special) > 0 {
			all = special
		}
	}
	return all[h.rng.IntN(len(all))]
}

func (h *harness) memberFaults(m *member) []fault {
	on := func(name string, do func(time.Duration)) fault {
		return fault{name: name + " " + m.name[:len(m.name)-2], parts: []string{m.name}, do: do}
	}
	all := []fault{
		on("kill", func(d time.Duration) {
			m.Kill()
			wait(d)
			m.Start()
		}),
		on("pause", func(d time.Duration) {
			m.Signal(syscall.SIGSTOP)
			wait(d)
			m.Signal(syscall.SIGCONT)
		}),
	}
	if !slices.Contains(h.clients, m) { // a stopped client first waits for its results
		all = append(all, on("restart", func(time.Duration) { h.restart(m) }))
	}
	for server, p := range map[string]*netfault.Proxy{"nats": m.nats, "redis": m.redis} {
		if p == nil || server == "redis" && slices.Contains(h.clients, m) {
			continue
		}
		all = append(all, link(m, server, p)...)
	}
	slices.SortFunc(all, func(a, b fault) int { // maps have no order, but the same seed must result in the same faults
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return all
}

// link returns the faults of the link from a member to a server.
func link(m *member, server string, p *netfault.Proxy) []fault {
	on := func(name string, begin, end func()) fault {
		return fault{name: name + " " + m.name[:len(m.name)-2] + " from " + server, parts: []string{m.name + server}, do: func(d time.Duration) {
			begin()
			wait(d)
			end()
		}}
	}
	return []fault{
		on("cut", p.Cut, p.Heal),
		on("black-hole", p.BlackHole, p.Heal),
		on("slow", func() { p.Delay(40 * time.Millisecond) }, func() { p.Delay(0) }),
		on("lose replies of", func() { p.LoseReplies(20) }, func() { p.LoseReplies(0) }),
	}
}

// killAll returns a fault that kills all members of one role, or of both, at once.
func killAll(h *harness, both bool) fault {
	f := fault{name: "kill all orchestrators"}
	all := h.members[:orchestrators]
	if both {
		f.name, all = "kill all orchestrators and workers", h.members[:orchestrators+workers]
	}
	for _, m := range all {
		f.parts = append(f.parts, m.name)
	}
	f.do = func(d time.Duration) {
		for _, m := range all {
			m.Signal(syscall.SIGKILL)
		}
		for _, m := range all {
			m.Kill()
		}
		wait(d)
		for _, m := range all {
			m.Start()
		}
	}
	return f
}

func (h *harness) serverFaults() []fault {
	s := h.servers
	all := []fault{
		{name: "purge TASKS", parts: []string{"tasks"}, do: func(time.Duration) { h.tasks("purge TASKS", jetstream.Stream.Purge) }},
		{name: "delete TASKS", parts: []string{"tasks"}, do: func(time.Duration) { h.tasks("delete TASKS", nil) }},
	}
	nats := func(name string, do func(time.Duration)) {
		all = append(all, fault{name: name, parts: []string{"nats"}, do: do})
	}
	if s.natsAll == nil {
		nats("kill nats", func(d time.Duration) {
			s.nats.Kill()
			wait(d)
			s.nats.Start()
		})
		nats("pause nats", func(d time.Duration) {
			s.nats.Signal(syscall.SIGSTOP)
			wait(d)
			s.nats.Signal(syscall.SIGCONT)
		})
	} else {
		n := s.natsAll.Nodes[h.rng.IntN(len(s.natsAll.Nodes))]
		nats("kill a nats-server", func(d time.Duration) {
			n.Kill()
			wait(d)
			n.Start()
		})
		nats("pause a nats-server", func(d time.Duration) {
			n.Signal(syscall.SIGSTOP)
			wait(d)
			n.Signal(syscall.SIGCONT)
		})
	}
	return append(all, h.redisFaults()...)
}

func (h *harness) redisFaults() (all []fault) {
	s := h.servers
	add := func(name string, do func(time.Duration)) {
		all = append(all, fault{name: name, parts: []string{"redis"}, do: do})
	}
	on := func(r *redistest.Server, what string) {
		add("kill "+what, func(d time.Duration) {
			r.Kill()
			wait(d)
			r.Restart(h.t)
		})
		add("pause "+what, func(d time.Duration) {
			r.Pause()
			wait(d)
			r.Resume()
		})
		add(what+" out of memory", func(d time.Duration) {
			r.OutOfMemory(h.t)
			wait(d)
			r.HasMemory(h.t)
		})
	}
	step := time.Duration(h.rng.IntN(10_000)-5000) * time.Millisecond
	add("step the clock of redis", func(d time.Duration) {
		s.clock.step(h.t, step)
		wait(d)
		s.clock.step(h.t, 0)
	})
	switch s.topology {
	case cluster:
		nodes := append(slices.Clone(s.cluster.Masters), s.cluster.Replicas...)
		on(nodes[h.rng.IntN(len(nodes))], "a redis node")
		key := fmt.Sprintf("{pawl:%s:%d}", namespace, h.rng.IntN(partitions))
		all = append(all, fault{name: "move a slot", parts: []string{"redis"}, do: func(time.Duration) {
			if err := s.moveSlot(key, 1+rand.IntN(50)); err != nil {
				h.recordf("move a slot: %v", err)
			}
		}})
	case failover:
		add("fail over redis", func(d time.Duration) {
			s.failOver(min(d, time.Second), 100*time.Millisecond, func(addr string) {
				for _, m := range h.members {
					m.redis.Retarget(addr)
				}
			})
		})
	case sentinel:
		node := []*redistest.Server{s.redis, s.replica}[h.rng.IntN(2)]
		on(node, "a redis node")
		all = all[:len(all)-1] // the sentinels close the connection that changes maxmemory
		for i := range all {
			do := all[i].do
			all[i].do = func(d time.Duration) {
				do(d)
				s.awaitReplica()
			}
		}
		p := s.sentinels[h.rng.IntN(len(s.sentinels))]
		all = append(all, fault{name: "kill a sentinel", parts: []string{"sentinels"}, do: func(d time.Duration) {
			p.Kill()
			wait(d)
			p.Start()
		}})
	default:
		on(s.redis, "redis")
	}
	return append(all, h.topologyFaults()...)
}

// topologyFaults returns the faults that are specific to the topology.
func (h *harness) topologyFaults() []fault {
	s := h.servers
	switch {
	case s.topology == power:
		return []fault{{name: "lose power", parts: []string{"redis", "nats"}, do: func(d time.Duration) {
			if err := s.losePower(d); err != nil {
				h.violationf("power loss: %v", err)
			}
		}}, {name: "restore a snapshot of redis", parts: []string{"redis"}, do: func(d time.Duration) {
			if err := s.restore(d); err != nil {
				h.violationf("snapshot: %v", err)
			}
		}}}
	case s.full != nil:
		free := uint64(h.rng.IntN(256 << 10)) //nolint:gosec // never negative
		return []fault{
			{name: "fill the disk of redis", parts: []string{"redis"}, do: func(d time.Duration) {
				if err := s.full.fill(free, d); err != nil {
					h.violationf("the disk of redis: %v", err)
				}
			}},
			{name: "fill the disk of nats", parts: []string{"nats"}, do: func(d time.Duration) {
				if err := s.fullNATS.fill(free, d); err != nil {
					h.violationf("the disk of nats: %v", err)
				}
				s.nats.Kill() // JetStream is disabled if the disk was full
				s.nats.Start()
			}},
		}
	case s.topology == clocks:
		m := h.members[h.rng.IntN(orchestrators+workers)]
		step := time.Duration(h.rng.IntN(1200)-600) * time.Second
		return []fault{{name: "step the clock of a member", parts: []string{m.name + "clock"}, do: func(d time.Duration) {
			h.recordf("the clock of %s is %v ahead", m.name, step)
			m.clock.step(h.t, step)
			wait(d)
			m.clock.step(h.t, 0)
		}}}
	case s.topology == resized:
		killed := time.Duration(h.rng.IntN(1000)) * time.Millisecond
		return []fault{resize(h, 1+h.rng.IntN(2*partitions), killed, h.rng.IntN(2) == 0)}
	case s.topology == upgrade:
		m := h.members[h.rng.IntN(orchestrators+workers)]
		var all []fault
		if m.release.Load() == 1 {
			all = append(all, fault{name: "upgrade an orchestrator", parts: []string{m.name}, do: func(time.Duration) { h.upgrade(m) }})
		}
		if h.previous.path != "" {
			all = append(all, fault{name: "exchange the program of a member", parts: []string{m.name}, do: func(time.Duration) { h.exchange(m) }})
		}
		return all
	}
	return nil
}

// tasks returns the fault that purges or deletes the TASKS stream.
func (h *harness) tasks(name string, purge func(jetstream.Stream, context.Context, ...jetstream.StreamPurgeOpt) error) {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	nc, err := nats.Connect(h.servers.natsURL(), nats.NoReconnect(), nats.Timeout(2*time.Second))
	if err != nil {
		h.recordf("%s: %v", name, err)
		return
	}
	defer nc.Close()
	const of = "PAWL-" + namespace + "-TASKS"
	js, err := jetstream.New(nc)
	if err == nil && purge == nil {
		err = js.DeleteStream(ctx, of)
	} else if err == nil {
		var stream jetstream.Stream
		if stream, err = js.Stream(ctx, of); err == nil {
			err = purge(stream, ctx)
		}
	}
	if err != nil {
		h.recordf("%s: %v", name, err)
	}
}
