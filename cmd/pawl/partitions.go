package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/resize"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/transport"
)

type partitionsCmd struct {
	Resize partitionsResizeCmd `cmd:"" help:"Change the number of partitions of a namespace whose fleet is stopped."`
}

type partitionsResizeCmd struct {
	Partitions         int  `arg:"" help:"New number of partitions, 1 to 1024."`
	DryRun             bool `help:"Show how much would be moved, and change nothing. This is possible while the fleet runs."`
	JSON               bool `name:"json" help:"Write a JSON object."`
	settings.Namespace `group:"Connection"`
	settings.NATS      `group:"Connection"`
	settings.Redis     `group:"Connection"`
	settings.Log       `group:"Connection"`
}

// Help is shown with the flags.
func (c *partitionsResizeCmd) Help() string {
	return "First stop every orchestrator, every worker, and every client that waits or reads; publishers may continue. Afterwards, start the fleet with the new --partitions. " +
		"The command requires the permissions of an orchestrator on NATS, and all keys of the namespace, INFO and SCAN on Redis. " +
		"If it is interrupted, the fleet cannot start until the change is complete: run the command again with the same number or, as long as it has removed nothing, " +
		"with the former number to undo the change. See docs/operations/partitions.md."
}

// Validate rejects numbers that are out of range.
func (c *partitionsResizeCmd) Validate() error {
	if c.Partitions < 1 || c.Partitions > transport.MaxPartitions {
		return fmt.Errorf("the number of partitions must be 1 to %d (got %d)", transport.MaxPartitions, c.Partitions)
	}
	return nil
}

// Run changes the number.
func (c *partitionsResizeCmd) Run(ctx context.Context, s streams) error {
	log := c.Open(s.err)
	rdb, err := c.OpenRedis(ctx, log)
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }() // all writes were acknowledged
	cfg := resize.Config{Redis: rdb, Namespace: c.Namespace.Namespace, Partitions: c.Partitions, Logger: log}
	if c.DryRun {
		r, err := resize.Plan(ctx, cfg)
		if err != nil {
			return err
		}
		return c.show(s, r)
	}
	if cfg.NATS, err = c.OpenNATS(log); err != nil {
		return err
	}
	defer cfg.NATS.Close()
	if !c.JSON {
		cfg.Progress = (&steps{w: s.err}).show
	}
	r, err := resize.Run(ctx, cfg)
	if err != nil {
		return err
	}
	return c.show(s, r)
}

func (c *partitionsResizeCmd) show(s streams, r resize.Result) error {
	if c.JSON {
		return writeJSON(s.out, r)
	}
	verb := "moved"
	switch {
	case c.DryRun:
		verb = "would move"
	case r.Undone:
		verb = "undone"
	}
	text := fmt.Sprintf("%d to %d partitions: %s (%s) %s", r.From, r.To, diagnose.Counted(int(r.Instances), "instance"), diagnose.Counted(int(r.Keys), "key"), verb)
	switch {
	case c.DryRun && r.Phase != "":
		text += "; a change is in progress, phase " + r.Phase
	case !c.DryRun:
		text += ", " + diagnose.Counted(int(r.Inputs), "input") + " read"
	}
	_, err := fmt.Fprintln(s.out, text)
	return err
}

// stepEvery is the minimum time between two lines about one step.
const stepEvery = 2 * time.Second

// steps writes a line at the beginning of each step, and lines about its progress.
type steps struct {
	w io.Writer

	mu   sync.Mutex
	step string
	last time.Time
}

func (p *steps) show(step string, done, of int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if step == p.step && time.Since(p.last) < stepEvery {
		return
	}
	text := step
	switch {
	case done > 0 && of > 0:
		text += fmt.Sprintf(": %d of %d", done, of)
	case done > 0:
		text += fmt.Sprintf(": %d", done)
	}
	p.step, p.last = step, time.Now()
	_, _ = fmt.Fprintln(p.w, text)
}
