// Package free is orchestration code with which nothing is wrong, and activities with
// which nothing would be.
package free

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand"
	randv2 "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/pawlrun/pawl"
)

const timeout = 3 * time.Second

var (
	Order    = pawl.NewOrchestration[order, string]("order")
	Work     = pawl.NewActivity[order, string]("work")
	Approved = pawl.NewEvent[string]("approved")
	pattern  = regexp.MustCompile(`^a+$`)
	started  = time.Now()
)

type order struct {
	At    time.Time
	Lines map[string]int
}

func orchestrate(ctx *pawl.Context, o order) (_ string, err error) {
	defer func() {
		if err != nil {
			_, rerr := Work.Call(pawl.Detach(ctx), o)
			err = errors.Join(err, rerr)
		}
	}()
	due := pawl.Now(ctx).Add(timeout).Truncate(time.Hour).UTC()
	if due.After(o.At) && due.Sub(o.At) > time.Duration(len(o.Lines))*time.Minute || due.Format(time.RFC3339) == "" {
		return "", fmt.Errorf("too late by %v: %w", due.Sub(o.At), os.ErrDeadlineExceeded)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).AddDate(0, 1, 0)
	at, _ = time.Parse(time.RFC3339, at.String())
	copied := maps.Clone(o.Lines)
	names := slices.Sorted(maps.Keys(copied))
	sort.Slice(names, func(i, j int) bool { return names[i] < names[j] })
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	b, err := json.Marshal(o)
	if err != nil || pattern.Match(b) || strings.Contains(filepath.Join("a", "b"), "c") {
		return "", err
	}
	_, _ = url.Parse("http://x")
	_ = net.ParseIP("::1")
	_ = http.StatusText(http.StatusOK)
	_, _ = uuid.Parse(pawl.NewID(ctx))
	if errors.Is(err, fs.ErrNotExist) || os.IsNotExist(err) || errors.Is(err, context.Canceled) {
		return "", err
	}
	source, seeded := pawl.Rand(ctx), rand.New(rand.NewSource(42))
	source.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	_ = seeded.Intn(3) + randv2.New(randv2.NewPCG(1, 2)).IntN(3)
	_, _, _, _ = runtime.Caller(0)
	pawl.Logger(ctx).With("order", o).Info("started", "at", noted{})
	ctx.Logger().Warn("still here")
	record(pawl.Logger(ctx))
	if _, err := pawl.Select(ctx, Approved.Next(ctx), pawl.After(ctx, timeout)); err != nil {
		return "", err
	}
	_, _ = pawl.SideEffect(ctx, func() (string, error) { return uuid.NewString() + time.Now().String(), nil })
	_, _ = pawl.SideEffect(ctx, hostname)
	_ = pawl.Scope(ctx, func(ctx *pawl.Context) error {
		sibling := pawl.Go(ctx, func(ctx *pawl.Context) (string, error) { return Work.Call(ctx, o) })
		return pawl.Await(ctx, func() bool { return sibling.Ready() || pawl.Now(ctx).After(due) })
	})
	retries := 0
	_, err = pawl.Map(ctx, 3, names, func(ctx *pawl.Context, name string) (int, error) {
		retries++
		_, err := Work.Call(ctx, o)
		return len(name), err
	})
	return strings.Join(names, ","), err
}

// noted is written out by a logger, which asks it when.
type noted struct{}

func (noted) LogValue() slog.Value { return slog.TimeValue(time.Now()) } // want LogValue:`reaches time\.Now`

func record(l *slog.Logger) { l.Info("recorded") }

func hostname() (string, error) { return os.Hostname() } // want hostname:`reaches os\.Hostname`

type service struct {
	mu   sync.Mutex
	seen map[string]int
}

// work is an activity, and does as it likes.
func (s *service) work(ctx context.Context, o order) (string, error) { // want work:`reaches .*`
	s.mu.Lock()
	defer s.mu.Unlock()
	done := make(chan string)
	go func() { done <- uuid.NewString() }()
	for k := range o.Lines {
		fmt.Println(k, time.Since(started))
	}
	select {
	case id := <-done:
		return id, os.WriteFile(id, nil, 0o600)
	case <-time.After(timeout):
		return "", context.Cause(ctx)
	}
}

func bindings(s *service) []pawl.Binding {
	return []pawl.Binding{
		Order.Do(orchestrate),
		Work.Do(s.work),
		Work.Do(func(ctx context.Context, o order) (string, error) { return time.Now().String(), nil }),
	}
}
