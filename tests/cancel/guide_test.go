package cancel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/exec"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// The code of docs/cancellation.md.

// Parcel is where something is.
type Parcel struct {
	Place     string
	Delivered bool
}

type carrier struct {
	every  time.Duration
	locate func(context.Context, string) (Parcel, error)
}

func (c *carrier) follow(ctx context.Context, id string) (Parcel, error) {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for {
		p, err := c.locate(ctx, id) // passes ctx on: an outstanding request ends, too
		if err != nil || p.Delivered {
			return p, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return Parcel{}, context.Cause(ctx)
		}
	}
}

type bucket struct {
	begin  func(context.Context, string) (string, error)
	put    func(ctx context.Context, upload string, part int) error
	finish func(ctx context.Context, upload string) error
	abort  func(ctx context.Context, upload string) error
	parts  int
}

func (b *bucket) upload(ctx context.Context, name string) (_ string, err error) {
	upload, err := b.begin(ctx, name)
	if err != nil {
		return "", err
	}
	defer func() {
		if err == nil {
			return
		}
		// ctx is done: half of the grace period is for the abort, and half for the rest.
		clean, stop := context.WithTimeout(context.WithoutCancel(ctx), pawl.Info(ctx).Grace/2)
		defer stop()
		err = errors.Join(err, b.abort(clean, upload))
	}()
	g, gctx := errgroup.WithContext(ctx)
	for part := range b.parts {
		g.Go(func() error { return b.put(gctx, upload, part) })
	}
	if err := g.Wait(); err != nil { // every goroutine has ended before the activity does
		return "", err
	}
	return upload, b.finish(ctx, upload)
}

func encode(ctx context.Context, film string) (string, error) {
	to := film + ".mp4"
	if _, err := exec.Command("ffmpeg", "-i", film, to).Run(ctx); err != nil {
		return "", fmt.Errorf("encode %s: %w", film, err) // the cause, if cancelled
	}
	return to, nil
}

type model struct {
	steps int
	step  func(ctx context.Context, at int) error
	save  func(key string, at int) error
	load  func(key string) int
}

func (m *model) train(ctx context.Context, _ pawl.None) (int, error) {
	key := pawl.Info(ctx).Key // the same when another worker continues
	for at := m.load(key); at < m.steps; at++ {
		if err := m.step(ctx, at); err != nil {
			if why, ok := errors.AsType[*pawl.Cancelled](context.Cause(ctx)); ok && why.Reason == cancel.WorkerStopping {
				err = errors.Join(err, m.save(key, at)) // another worker continues
			}
			return 0, err
		}
	}
	return m.steps, nil
}

type legacy struct{ render func(page string) string }

func (l *legacy) print(ctx context.Context, page string) (string, error) {
	done := make(chan string, 1) // buffered, so that a late rendering can end
	go func() { done <- l.render(page) }()
	select {
	case text := <-done:
		return text, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

var errLost = &cancel.Cancelled{Reason: cancel.LostSelect}

// cancellable returns the context of an activity, and the function that cancels it.
func cancellable(t *testing.T, grace time.Duration) (context.Context, context.CancelCauseFunc) {
	t.Helper()
	ctx, stop := context.WithCancelCause(t.Context())
	return pawl.WithInfo(ctx, pawl.ActivityInfo{Grace: grace}), stop
}

func TestGuideParcelIsTrackedUntilCancelled(t *testing.T) {
	ctx, stop := cancellable(t, time.Second)
	requests := 0
	c := &carrier{every: time.Millisecond, locate: func(context.Context, string) (Parcel, error) {
		if requests++; requests == 3 {
			stop(errLost)
		}
		return Parcel{Place: "sea"}, nil
	}}
	if _, err := c.follow(ctx, "x"); !errors.Is(err, errLost) || requests < 3 {
		t.Errorf("requested %d times, %v", requests, err)
	}
	c.locate = func(context.Context, string) (Parcel, error) { return Parcel{"here", true}, nil }
	if p, err := c.follow(t.Context(), "x"); err != nil || p.Place != "here" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestGuideUploadIsAbortedWithinGracePeriod(t *testing.T) {
	ctx, stop := cancellable(t, time.Minute)
	var mu sync.Mutex
	var did []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		did = append(did, what)
	}
	b := &bucket{
		parts: 3,
		begin: func(context.Context, string) (string, error) { return "u", nil },
		put: func(ctx context.Context, _ string, part int) error {
			if part == 0 {
				stop(errLost)
			}
			<-ctx.Done()
			note("put")
			return context.Cause(ctx)
		},
		finish: func(context.Context, string) error { note("finish"); return nil },
		abort:  func(ctx context.Context, _ string) error { note("abort"); return ctx.Err() },
	}
	_, err := b.upload(ctx, "film")
	if !errors.Is(err, errLost) || !slices.Equal(did, []string{"put", "put", "put", "abort"}) {
		t.Errorf("%v, %v", did, err)
	}
	did, b.put = nil, func(context.Context, string, int) error { return nil }
	if u, err := b.upload(t.Context(), "film"); u != "u" || err != nil || !slices.Equal(did, []string{"finish"}) {
		t.Errorf("%q, %v, %v", u, did, err)
	}
}

// fakeFFmpeg runs for an hour with a child process, unless the film is marked as short. On SIGTERM it removes its output.
const fakeFFmpeg = `#!/bin/sh
trap 'rm -f "$3"; exit 255' TERM
echo frames >"$3"
[ -e "$2.short" ] && exit 0
sleep 3600 & wait
`

func TestGuideProgramCleansUpAndExits(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ffmpeg"), []byte(fakeFFmpeg), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	ctx, stop := cancellable(t, 20*time.Second)
	film := filepath.Join(dir, "film")
	done := make(chan error, 1)
	go func() { _, err := encode(ctx, film); done <- err }()
	there := func() bool { _, err := os.Stat(film + ".mp4"); return err == nil }
	poll.Until(t, within, "the program runs", there)
	stop(errLost)
	if err := <-done; !errors.Is(err, errLost) || there() {
		t.Errorf("%v; its file exists: %v", err, there())
	}
	if err := os.WriteFile(film+".short", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if to, err := encode(t.Context(), film); err != nil || to != film+".mp4" || !there() {
		t.Errorf("%q, %v", to, err)
	}
}

func TestGuideTrainingIsSavedOnlyForAnotherWorker(t *testing.T) {
	for reason, saved := range map[cancel.Reason]int{cancel.WorkerStopping: 2, cancel.LostSelect: 0} {
		ctx, stop := cancellable(t, time.Second)
		kept := 0
		m := &model{
			steps: 4, load: func(string) int { return kept }, save: func(_ string, at int) error { kept = at; return nil },
			step: func(ctx context.Context, at int) error {
				if at == 2 {
					stop(&cancel.Cancelled{Reason: reason})
				}
				return context.Cause(ctx)
			},
		}
		if _, err := m.train(ctx, pawl.None{}); !errors.Is(err, &cancel.Cancelled{Reason: reason}) || kept != saved {
			t.Errorf("%s: saved at %d, %v", reason, kept, err)
		}
		m.step = func(context.Context, int) error { return nil }
		if n, err := m.train(t.Context(), pawl.None{}); n != 4 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
}

func TestGuideLegacyActivityIsAbandoned(t *testing.T) {
	ctx, stop := cancellable(t, time.Second)
	release := make(chan struct{})
	ended := make(chan struct{})
	l := &legacy{render: func(page string) string { defer close(ended); <-release; return strings.ToUpper(page) }}
	stop(errLost)
	if _, err := l.print(ctx, "a"); !errors.Is(err, errLost) {
		t.Error(err)
	}
	close(release)
	<-ended
	l.render = strings.ToUpper
	if text, err := l.print(t.Context(), "a"); text != "A" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

func TestCodeOfTheCancellationPageCompiles(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../../docs/cancellation.md"), 5, doctest.Read(t, "guide_test.go"))
}
