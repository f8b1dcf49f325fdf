package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	purgesAtOnce = 64  // instances are purged at a time
	worthABar    = 200 // instances take long enough for progress to be shown
)

type purgeCmd struct {
	IDs       []string      `arg:"" optional:"" name:"id" help:"Ids of the instances."`
	Status    string        `enum:",completed,failed,cancelled" default:"" placeholder:"STATUS" help:"In place of ids: all instances that are completed, failed or cancelled."`
	OlderThan time.Duration `placeholder:"DURATION" help:"In place of ids, or with --status: all instances that have ended so long ago, such as 24h."`
	Force     bool          `help:"Also if it runs, or can not go on: its activities and children are cancelled, its code is not asked."`
	Reason    string        `placeholder:"TEXT" help:"Why; what is cancelled by it is told."`
	Yes       bool          `short:"y" help:"Do not ask; elsewhere than on a terminal nobody is asked."`
	Timeout   time.Duration `default:"30s" help:"Wait so long for each to be purged. It is purged later all the same."`
	JSON      bool          `name:"json" help:"Write JSON, an instance a line."`
	reach     `group:"Connection"`
}

// Validate refuses what can not be meant together.
func (c *purgeCmd) Validate() error {
	switch {
	case len(c.IDs) == 0 && !c.many():
		return errors.New("want the ids of instances, or --status, or --older-than")
	case len(c.IDs) > 0 && c.many():
		return errors.New("--status and --older-than choose instances in place of ids")
	case c.Force && c.many():
		return errors.New("--force needs ids: what --status and --older-than choose has ended")
	case c.OlderThan < 0:
		return fmt.Errorf("--older-than %s: want more than nothing", c.OlderThan)
	case c.Timeout <= 0:
		return fmt.Errorf("--timeout %s: want more than nothing", c.Timeout)
	}
	return nil
}

// many says that the instances are looked for.
func (c *purgeCmd) many() bool { return c.Status != "" || c.OlderThan != 0 }

// Run purges instances. One that could not be purged is exit code 1, when all have been tried.
func (c *purgeCmd) Run(ctx context.Context, s streams) error {
	for _, id := range c.IDs {
		if err := pawl.ValidateID(id); err != nil {
			return settings.Usage(err)
		}
	}
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	ids := c.IDs
	if c.many() {
		if ids, err = c.find(ctx, cl); err != nil {
			return fmt.Errorf("nothing was purged: %w", err)
		}
	}
	if len(ids) > 0 && (c.Force || c.many()) && !c.Yes && person(s) {
		if err := confirm(ctx, os.Stdin, s.err, c.question(len(ids))); err != nil {
			return err
		}
	}
	return c.purge(ctx, s, cl, ids)
}

func (c *purgeCmd) question(n int) string {
	if c.Force {
		return fmt.Sprintf("Purge %s with all history, also if running? Activities and children will be cancelled.", diagnose.Counted(n, "instance"))
	}
	return fmt.Sprintf("Purge %s with all history?", diagnose.Counted(n, "instance"))
}

// find looks for the instances that have ended as was asked for.
func (c *purgeCmd) find(ctx context.Context, cl *client.Client) (ids []string, _ error) {
	before := time.Now().Add(-c.OlderThan)
	for d, err := range cl.List(ctx, client.ListOptions{Status: client.Status(c.Status)}) {
		if err != nil {
			return nil, err
		}
		if !d.Ended.IsZero() && !d.Ended.After(before) {
			ids = append(ids, d.Instance)
		}
	}
	return ids, nil
}

// purgedLine is for a program what became of one purge.
type purgedLine struct {
	Instance string `json:"instance"`
	Purged   bool   `json:"purged"`
	Error    string `json:"error,omitempty"`
}

// purge purges instances, several at a time, and tells of each as it is done.
func (c *purgeCmd) purge(ctx context.Context, s streams, cl *client.Client, ids []string) error {
	tell := &teller{s: s, of: len(ids), each: !c.many(), json: c.JSON}
	if len(ids) >= worthABar && !tell.each && !tell.json {
		tell.bar = term.NewProgress(s.err, len(ids), "instances")
	}
	places := make(chan struct{}, purgesAtOnce)
	var wg sync.WaitGroup
	for _, id := range ids {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-places }()
			tell.outcome(id, c.one(ctx, cl, id))
		})
	}
	wg.Wait()
	return tell.end(ctx)
}

// one purges an instance.
func (c *purgeCmd) one(ctx context.Context, cl *client.Client, id string) error {
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	opts := []client.PurgeOption{client.Because(c.Reason)}
	if c.Force {
		opts = append(opts, client.Force())
	}
	err := cl.Purge(limited, id, opts...)
	switch {
	case c.many() && errors.Is(err, client.ErrNotFound): // somebody else was first
		return nil
	case errors.Is(err, client.ErrStuck), !errors.Is(err, client.ErrNotYet):
		return err
	case ctx.Err() == nil:
		return fmt.Errorf("%s has not been purged within %s, and will be later%s", id, c.Timeout, because(ctx, cl, id))
	default:
		return fmt.Errorf("no longer waiting for the purge of %s, which takes effect all the same", id)
	}
}

// teller tells of purges as they are done.
type teller struct {
	s    streams
	of   int
	each bool // a line for each, else only for those that failed
	json bool
	bar  *term.Progress // nil: they are few, or each is told

	mu           sync.Mutex
	done, failed int
	trouble      error // of writing
}

func (t *teller) outcome(id string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done++; err != nil {
		t.failed++
	}
	if t.bar != nil {
		t.bar.Set(t.done)
	}
	if trouble := t.say(id, err); t.trouble == nil {
		t.trouble = trouble
	}
}

func (t *teller) say(id string, err error) error {
	switch {
	case t.json && err != nil:
		return writeJSON(t.s.out, purgedLine{Instance: id, Error: spoken(err)})
	case t.json:
		return writeJSON(t.s.out, purgedLine{Instance: id, Purged: true})
	case err != nil && t.bar != nil:
		t.bar.Printf("pawl: %s", spoken(err))
		return nil
	case err != nil:
		_, err = fmt.Fprintf(t.s.err, "pawl: %s\n", spoken(err))
		return err
	case t.each:
		_, err := fmt.Fprintf(t.s.out, "%s: purged\n", id)
		return err
	default:
		return nil
	}
}

// end says how many it were, where that is not plain from the lines above.
func (t *teller) end(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bar != nil {
		t.bar.End()
	}
	if t.trouble == nil && !t.json && !t.each {
		_, t.trouble = fmt.Fprintf(t.s.out, "%s purged\n", diagnose.Counted(t.done-t.failed, "instance"))
	}
	switch {
	case t.trouble != nil:
		return t.trouble
	case t.done < t.of:
		return fmt.Errorf("%d of %s left as they are: %w", t.of-t.done, diagnose.Counted(t.of, "instance"), context.Cause(ctx))
	case t.failed > 0:
		return settings.ExitCode(settings.ExitFailed)
	default:
		return nil
	}
}
