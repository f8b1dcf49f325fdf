package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	purgeConcurrency = 64  // maximum number of concurrent purges
	minForBar        = 200 // minimum number of instances for which progress is shown
)

type purgeCmd struct {
	IDs       []string      `arg:"" optional:"" name:"id" help:"Ids of the instances."`
	Status    string        `enum:",completed,failed,cancelled" default:"" placeholder:"STATUS" help:"Instead of ids: all instances that are completed, failed or cancelled."`
	Where     string        `placeholder:"FILTER" help:"Instead of ids, or with --status: all ended instances that pass a filter, such as 'code = shop.declined and ended < -7d'."`
	OlderThan time.Duration `placeholder:"DURATION" help:"Instead of ids, or with --status: all instances that ended at least this long ago, such as 24h."`
	Force     bool          `help:"Also purge running and stalled instances. Their activities and children are cancelled, and their code does not run."`
	Reason    string        `placeholder:"TEXT" help:"Reason, which cancelled activities and children receive."`
	confirmation
	Timeout    time.Duration `default:"30s" help:"Maximum wait for each purge. After the timeout, the purge still takes effect."`
	JSON       bool          `name:"json" help:"Write one JSON object per instance."`
	connection `group:"Connection"`
}

// Validate rejects invalid combinations.
func (c *purgeCmd) Validate() error {
	switch {
	case len(c.IDs) == 0 && !c.many():
		return errors.New("give the ids of instances, --status, --where or --older-than")
	case len(c.IDs) > 0 && c.many():
		return errors.New("--status, --where and --older-than select instances instead of ids")
	case c.Force && c.many():
		return errors.New("--force needs ids: --status, --where and --older-than select ended instances")
	case c.OlderThan < 0:
		return fmt.Errorf("--older-than must be positive (got %s)", c.OlderThan)
	case c.Timeout <= 0:
		return fmt.Errorf("--timeout must be positive (got %s)", c.Timeout)
	}
	bad := []error{checkWhere(c.Where)}
	for _, id := range c.IDs {
		bad = append(bad, pawl.ValidateID(id))
	}
	return errors.Join(bad...)
}

// many reports whether instances are selected by status, filter or age.
func (c *purgeCmd) many() bool { return c.Status != "" || c.Where != "" || c.OlderThan != 0 }

// Run purges instances. It attempts all of them. If one could not be purged, the exit code is 1.
func (c *purgeCmd) Run(ctx context.Context, s streams, cl *client.Client) (err error) {
	ids := c.IDs
	if c.many() {
		if ids, err = c.find(ctx, cl); err != nil {
			return fmt.Errorf("nothing was purged: %w", err)
		}
	}
	if len(ids) > 0 && (c.Force || c.many()) {
		if err := c.ask(ctx, s, c.question(len(ids))); err != nil {
			return err
		}
	}
	return c.purge(ctx, s, cl, ids)
}

func (c *purgeCmd) question(n int) string {
	if c.Force {
		return fmt.Sprintf("Purge %s with all history, even if running? Activities and children will be cancelled.", diagnose.Counted(n, "instance"))
	}
	return fmt.Sprintf("Purge %s with all history?", diagnose.Counted(n, "instance"))
}

// find lists the selected instances.
func (c *purgeCmd) find(ctx context.Context, cl *client.Client) (ids []string, _ error) {
	before := time.Now().Add(-c.OlderThan)
	for d, err := range cl.List(ctx, client.ListOptions{Where: c.Where, Status: client.Status(c.Status)}) {
		if err != nil {
			return nil, err
		}
		if !d.Ended.IsZero() && !d.Ended.After(before) {
			ids = append(ids, d.Instance)
		}
	}
	return ids, nil
}

// purgedLine is the outcome of one purge as JSON.
type purgedLine struct {
	Instance string `json:"instance"`
	Purged   bool   `json:"purged"`
	Error    string `json:"error,omitempty"`
}

// purge purges instances concurrently, and reports each outcome.
func (c *purgeCmd) purge(ctx context.Context, s streams, cl *client.Client, ids []string) error {
	report := &purgeReport{s: s, of: len(ids), each: !c.many(), json: c.JSON}
	if len(ids) >= minForBar && !report.each && !report.json {
		report.bar = term.NewProgress(s.err, len(ids), "instances")
	}
	var g errgroup.Group
	g.SetLimit(purgeConcurrency)
	for _, id := range ids {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { report.outcome(id, c.one(ctx, cl, id)); return nil })
	}
	_ = g.Wait() // the report has the errors
	return report.end(ctx)
}

// one purges an instance.
func (c *purgeCmd) one(ctx context.Context, cl *client.Client, id string) error {
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	opts := []client.PurgeOption{client.Reason(c.Reason)}
	if c.Force {
		opts = append(opts, client.Force())
	}
	err := cl.Purge(limited, id, opts...)
	switch {
	case c.many() && errors.Is(err, client.ErrNotFound): // purged in the meantime
		return nil
	case errors.Is(err, client.ErrStalled), !errors.Is(err, client.ErrPurgePending):
		return err
	case ctx.Err() == nil:
		return fmt.Errorf("%s was not purged within %s, and will be purged later%s", id, c.Timeout, because(ctx, cl, id))
	default:
		return fmt.Errorf("interrupted; %s will be purged nevertheless", id)
	}
}

// purgeReport reports the outcomes of purges.
type purgeReport struct {
	s    streams
	of   int
	each bool // write a line for each purge, not only for failures
	json bool
	bar  *term.Progress // nil: for a few instances, or if each has a line

	mu           sync.Mutex
	done, failed int
	writeErr     error
}

func (t *purgeReport) outcome(id string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done++; err != nil {
		t.failed++
	}
	if t.bar != nil {
		t.bar.Set(t.done)
	}
	if err := t.write(id, err); t.writeErr == nil {
		t.writeErr = err
	}
}

func (t *purgeReport) write(id string, err error) error {
	switch {
	case t.json && err != nil:
		return writeJSON(t.s.out, purgedLine{Instance: id, Error: userMessage(err)})
	case t.json:
		return writeJSON(t.s.out, purgedLine{Instance: id, Purged: true})
	case err != nil && t.bar != nil:
		t.bar.Printf("pawl: %s", userMessage(err))
		return nil
	case err != nil:
		return t.s.note("%s", userMessage(err))
	case t.each:
		_, err := fmt.Fprintf(t.s.out, "%s: purged\n", id)
		return err
	default:
		return nil
	}
}

// end writes the number of purged instances, unless each has a line.
func (t *purgeReport) end(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bar != nil {
		t.bar.End()
	}
	if t.writeErr == nil && !t.json && !t.each {
		_, t.writeErr = fmt.Fprintf(t.s.out, "%s purged\n", diagnose.Counted(t.done-t.failed, "instance"))
	}
	switch {
	case t.writeErr != nil:
		return t.writeErr
	case t.done < t.of:
		return fmt.Errorf("interrupted; %d of %s not purged: %w", t.of-t.done, diagnose.Counted(t.of, "instance"), context.Cause(ctx))
	case t.failed > 0:
		return settings.ExitCode(settings.ExitFailed)
	default:
		return nil
	}
}
