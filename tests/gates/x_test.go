package gates

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/gate"
)

func TestXIdle(t *testing.T) {
	a := newArena(t, 3, settings{})
	a.held("three")
	for i := range 5 { a.visit(fmt.Sprint("w", i), one("three", Visit{})) }
	a.queued("three", 5)
	a.must(client.SetPolicy(a.ctx, a.client, "action:three", client.Policy{Concurrency: 2}))
	a.must(client.DeletePolicy(a.ctx, a.client, "action:three"))
	a.must(client.SetPolicy(a.ctx, a.client, "action:free", client.Policy{Concurrency: 1}))
	r := a.visit("f1", one("free", Visit{Hold: true}))
	a.until("free", 1)
	a.must(client.DeletePolicy(a.ctx, a.client, "action:free"))
	show := func() { fmt.Println(a.book.rdb.Info(a.ctx, "commandstats").Val()) }
	time.Sleep(2*time.Second)
	a.book.rdb.ConfigResetStat(a.ctx)
	time.Sleep(5*time.Second)
	show()
	a.open("free"); a.open("three")
	_ = r
}

func TestXChaos(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" { seed, _ = strconv.ParseUint(s, 10, 64) }
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	a := newArena(t, 3, settings{})
	names := []string{"three", "busy", "keyed", "full", "late", "kept"}
	hs := []string{"hall", "annex", "late-hall"}
	var ids []string
	stop := make(chan struct{}); done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select { case <-stop: return; case <-time.After(700*time.Millisecond): }
			p := a.fleets[i%3]
			p.Kill(); p.Start()
		}
	}()
	for i := range 300 {
		id := fmt.Sprint("c", i)
		ids = append(ids, id)
		switch rnd.IntN(4) {
		case 0:
			a.stay(hs[rnd.IntN(len(hs))], id, Stay{Again: rnd.IntN(2)})
		default:
			n := 1+rnd.IntN(4)
			c := Crowd{Action: names[rnd.IntN(len(names))], Retry: 1+rnd.IntN(3), Pause: time.Duration(rnd.IntN(50)+1)*time.Millisecond, Keep: rnd.IntN(2) == 0, Limited: rnd.IntN(2)==0}
			if rnd.IntN(5) == 0 { c.Within = 500*time.Millisecond }
			if rnd.IntN(5) == 0 { c.Attempt = 300*time.Millisecond }
			for range n {
				c.Visits = append(c.Visits, Visit{Key: []string{"", "red", "blue"}[rnd.IntN(3)], Fails: uint32(rnd.IntN(3)), Dwell: time.Duration(rnd.IntN(30))*time.Millisecond})
			}
			a.visit(id, c)
		}
		if rnd.IntN(6) == 0 { a.must(client.Cancel(a.ctx, a.client, ids[rnd.IntN(len(ids))], "x")) }
		if rnd.IntN(12) == 0 { go client.Purge(a.ctx, a.client, ids[rnd.IntN(len(ids))], client.Force()) }
		if rnd.IntN(30) == 0 { _ = client.SetPolicy(a.ctx, a.client, "action:"+names[rnd.IntN(len(names))], client.Policy{Concurrency: uint32(1+rnd.IntN(4))}) }
		if rnd.IntN(40) == 0 { _, _ = client.ClearQueue(a.ctx, a.client, names[rnd.IntN(len(names))], "") }
	}
	time.Sleep(2*time.Second)
	close(stop); <-done
	t0 := time.Now()
	poll.Until(t, 60*time.Second, "all ended", func() bool {
		time.Sleep(200*time.Millisecond)
		n := 0
		for _, err := range client.List(a.ctx, a.client, client.ListOptions{Status: client.Running}) { if err != nil { n = 1000000 }; n++ }
		for _, err := range client.List(a.ctx, a.client, client.ListOptions{Status: client.Pending}) { if err != nil { n = 1000000 }; n++ }
		if time.Since(t0) > 50*time.Second {
			for d := range client.List(a.ctx, a.client, client.ListOptions{Status: client.Running}) { d, _ := client.Describe(a.ctx, a.client, d.Instance); fmt.Printf("%+v\n", d) 
			}
			for d := range client.List(a.ctx, a.client, client.ListOptions{Status: client.Pending}) { d, _ := client.Describe(a.ctx, a.client, d.Instance); fmt.Printf("%+v\n", d) 
			}
			time.Sleep(10*time.Second)
		}
		return n == 0
	})
	fmt.Println("ended after", time.Since(t0))
	for _, n := range append(append([]string{"keyed/red", "keyed/blue"}, names...), hs...) {
		s := a.stand(n, "empty", func(s gate.Stats) bool { return s.QueueLength == 0 && s.Active == 0 })
		for _, err := range a.gates.Check(a.ctx, n) { t.Error(err) }
		fmt.Printf("%s %+v\n", n, s)
	}
	fmt.Println("empty after", time.Since(t0))
	a.check()
}
