package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pawlrun/pawl"
)

// The activities. Each records its beginning in the ledger, and its end unless it only ends by cancellation.
var (
	Step      = pawl.NewActivity[int, int]("step")
	Endless   = pawl.NewActivity[int, pawl.None]("endless")
	Undo      = pawl.NewActivity[int, pawl.None]("undo")
	Flaky     = pawl.NewActivity[int, string]("flaky")
	Seat      = pawl.NewActivity[Input, pawl.None]("seat", pawl.Concurrency(Seats), pawl.KeyBy("tenant"))
	Meter     = pawl.NewActivity[int, string]("meter", pawl.Rate(40, time.Second))
	Allowance = pawl.NewActivity[int, string]("allowance", pawl.Quota(60, 5*time.Second))
	Door      = pawl.NewActivity[int, pawl.None]("door", pawl.Concurrency(2), pawl.Reject()) // rejects instead of queueing
	Fragile   = pawl.NewActivity[int, string]("fragile")
	Echo      = pawl.NewActivity[string, string]("echo")
	Carry     = pawl.NewActivity[string, string]("carry")
	Hurry     = pawl.NewActivity[int, pawl.None]("hurry", pawl.Concurrency(2), pawl.QueueTimeout(100*time.Millisecond))
)

// Run is a line of the ledger: the beginning or the end of a run of an activity.
type Run struct {
	What     string // name of the activity; of an end, name.end or name.cancelled
	Instance string
	Activity uint64 // id of the event that scheduled it
	Key      string // identical for all runs of one call
	Claim    uint32
	At       time.Time
	Tenant   string // tenant of Seat
}

// Ledger is the path of the file in which activities record their runs. The file is independent of Pawl and survives every
// fault.
type Ledger string

// Activities returns the bindings of the workers.
func (l Ledger) Activities() []pawl.ActivityBinding {
	brief := func(d time.Duration, what string) func(context.Context, int) (pawl.None, error) {
		return func(ctx context.Context, _ int) (pawl.None, error) { return pawl.None{}, l.run(ctx, what, "", d) }
	}
	return []pawl.ActivityBinding{
		Step.Do(func(ctx context.Context, n int) (int, error) { return n + 1, l.run(ctx, "step", "", 0) }),
		Endless.Do(l.endless),
		Undo.Do(brief(0, "undo")),
		Flaky.Do(l.flaky),
		Fragile.Do(l.fragile),
		Echo.Do(l.echo),
		Carry.Do(l.carry),
		Seat.Do(func(ctx context.Context, in Input) (pawl.None, error) {
			return pawl.None{}, l.run(ctx, "seat", in.Tenant, 20*time.Millisecond)
		}),
		Meter.Do(func(ctx context.Context, _ int) (string, error) { return "ok", l.run(ctx, "meter", "", 0) }),
		Allowance.Do(func(ctx context.Context, _ int) (string, error) { return "ok", l.run(ctx, "allowance", "", 0) }),
		Door.Do(brief(30*time.Millisecond, "door")),
		Hurry.Do(brief(30*time.Millisecond, "hurry")),
	}
}

// run records the beginning, waits for d, and records the end or the cancellation.
func (l Ledger) run(ctx context.Context, what, tenant string, d time.Duration) error {
	if err := l.write(ctx, what, tenant); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), l.write(ctx, what+".cancelled", tenant))
	}
	return l.write(ctx, what+".end", tenant)
}

// endless runs until it is cancelled.
func (l Ledger) endless(ctx context.Context, _ int) (pawl.None, error) {
	if err := l.write(ctx, "endless", ""); err != nil {
		return pawl.None{}, err
	}
	<-ctx.Done()
	return pawl.None{}, errors.Join(context.Cause(ctx), l.write(ctx, "endless.cancelled", ""))
}

// flaky fails on its first two attempts.
func (l Ledger) flaky(ctx context.Context, _ int) (string, error) {
	if err := l.write(ctx, "flaky", ""); err != nil {
		return "", err
	}
	if n := pawl.Info(ctx).Attempt; n < 3 {
		return "", fmt.Errorf("attempt %d fails", n)
	}
	return "ok", nil
}

// fragile fails in the first execution of its instance.
func (l Ledger) fragile(ctx context.Context, _ int) (string, error) {
	if err := l.write(ctx, "fragile", ""); err != nil {
		return "", err
	}
	if pawl.Info(ctx).Execution == 1 {
		return "", ErrDeclined
	}
	return "mended", nil
}

// echo fails on its first attempt, with its input in the message.
func (l Ledger) echo(ctx context.Context, text string) (string, error) {
	if err := l.write(ctx, "echo", ""); err != nil {
		return "", err
	}
	if pawl.Info(ctx).Attempt == 1 {
		return "", errors.New(text)
	}
	return text, nil
}

// write appends a line in a single write, so that lines of different processes do not mix.
func (l Ledger) write(ctx context.Context, what, tenant string) error {
	f, err := os.OpenFile(string(l), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	i := pawl.Info(ctx)
	var now syscall.Timeval // the clock of the machine: a campaign steps the clock of package time
	err = syscall.Gettimeofday(&now)
	at := time.Unix(now.Unix()).UnixNano()
	_, werr := fmt.Fprintf(f, "%s\t%s\t%d\t%s\t%d\t%d\t%s\n", what, i.Instance, i.Activity, i.Key, i.Claim, at, tenant)
	err = errors.Join(err, werr)
	return errors.Join(err, f.Close())
}

// Read returns the runs in the order in which they were recorded. Lines that a kill has truncated are skipped.
func (l Ledger) Read() ([]Run, error) {
	b, err := os.ReadFile(string(l))
	if err != nil {
		return nil, err
	}
	var out []Run
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 7 || !strings.HasSuffix(line, "\n") {
			continue
		}
		activity, err1 := strconv.ParseUint(f[2], 10, 64)
		claim, err2 := strconv.ParseUint(f[4], 10, 32)
		at, err3 := strconv.ParseInt(f[5], 10, 64)
		if errors.Join(err1, err2, err3) != nil {
			continue
		}
		out = append(out, Run{What: f[0], Instance: f[1], Activity: activity, Key: f[3], Claim: uint32(claim), At: time.Unix(0, at), Tenant: f[6]})
	}
	return out, nil
}
