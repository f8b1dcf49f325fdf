package redisx_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

// newServerRunner returns a runner that uses a user's client of one server.
func newServerRunner(t *testing.T, s *redistest.Server) *redisx.Runner {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr: s.Addr, DisableIdentity: true, ReadTimeout: time.Minute, DialTimeout: time.Minute, MaxRetries: 5,
	})
	r := redisx.NewRunner(rdb)
	t.Cleanup(func() {
		r.Close()
		_ = rdb.Close()
	})
	return r
}

func addOne() redisx.Call {
	return redisx.Call{Script: add, Keys: []string{redisx.NewSpace("t").Part(1).Wakeups()}, Args: []any{1}}
}

func TestHangingServerCostsRunnerTimeout(t *testing.T) {
	s := redistest.Start(t)
	r := newServerRunner(t, s)
	until(t, r, addOne())
	s.Pause()
	defer s.Resume()
	begin := time.Now()
	if _, err := r.Do(within(t), addOne()); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that hangs: %v", err)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("the error was returned after %v", took)
	}
	s.Resume()
	until(t, r, addOne())
}

// Calls succeed although the server was restarted at its address without data, or could not be written to for a moment.
func TestCallSurvivesShortOutage(t *testing.T) {
	s := redistest.Start(t)
	r := newServerRunner(t, s)
	for name, interrupt := range map[string]func(){
		"killed and started again": func() { s.Kill() },
		"a replica for a moment": func() {
			host, port, err := net.SplitHostPort(redistest.Start(t).Addr)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Client(t).SlaveOf(within(t), host, port).Err(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for try := 1; ; try++ {
				until(t, r, addOne())
				interrupt()
				begun := time.Now()
				answered := make(chan error, 1)
				r.Go(addOne(), func(_ any, err error) { answered <- err })
				if name == "killed and started again" {
					s.Restart(t)
				} else if err := s.Client(t).SlaveOf(within(t), "NO", "ONE").Err(); err != nil {
					t.Fatal(err)
				}
				outage := time.Since(begun)
				err := <-answered
				if err == nil {
					return
				}
				if outage < time.Second || try == 5 { // a longer one is not short, because a call is repeated for three seconds
					t.Fatalf("after an outage of %v: %v", outage, err)
				}
			}
		})
	}
}

func TestCallSurvivesLoadingServer(t *testing.T) {
	s := redistest.StartLoading(t, 700)
	r := newServerRunner(t, s)
	for try := 1; ; try++ {
		begin := time.Now()
		_, err := r.Do(within(t), addOne())
		if err == nil {
			return
		}
		if took := time.Since(begin); took < 3*time.Second || try == 10 { // a call is repeated for that time, and a slow server may load longer
			t.Fatalf("after %v: %v", took, err)
		}
	}
}
