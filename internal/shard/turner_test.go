package shard

import (
	"runtime"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

// step is a job of functions.
type step struct{ run, givenUp, ended func() }

func (s step) work()    { s.run() }
func (s step) done()    { s.ended() }
func (s step) late()    { s.ended() }
func (s step) blocked() { s.givenUp() }

// An eviction that was queued behind a turn reads the code that the turn leaves, unless the turn has been given up.
func TestJobBehindOneThatBlocksRunsAfterThatWasGivenUp(t *testing.T) {
	defer goleak.VerifyNone(t)
	turns := newTurner()
	var ran, early atomic.Bool
	began, release, late := make(chan struct{}), make(chan struct{}), make(chan struct{})
	turns.do(step{
		run: func() { close(began); <-release },
		givenUp: func() {
			for range 1000 {
				runtime.Gosched()
			}
			early.Store(ran.Load())
		},
		ended: func() { close(late) },
	})
	<-began
	turns.do(step{run: func() { ran.Store(true) }, ended: func() {}})
	turns.tick(1)
	turns.close()
	if early.Load() || !ran.Load() {
		t.Errorf("the job behind ran before the job that blocks was given up: %t; at all: %t", early.Load(), ran.Load())
	}
	close(release)
	<-late
}
