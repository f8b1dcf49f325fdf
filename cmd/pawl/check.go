package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/internal/transport"
)

const progressDelay = time.Second // a faster check shows no progress

type checkCmd struct {
	JSON               bool          `name:"json" help:"Write JSON."`
	Objects            bool          `help:"Also verify that NATS has every large payload to which a history refers, and no old one without a reference."`
	OrphanAge          time.Duration `hidden:"" default:"54h"` // objects without a reference are removed 48 to 51 hours after their last use
	settings.Namespace `group:"Connection"`
	settings.NATS      `group:"Connection"`
	settings.Redis     `group:"Connection"`
	settings.Log       `group:"Connection"`
}

// Help is shown with the flags.
func (c *checkCmd) Help() string {
	return "Reads Redis directly, writes nothing, and can run while the fleet runs. Without --redis it checks the Redis of \"pawl dev\". " +
		"The permissions of an operator suffice, on Redis and, for --objects, on NATS."
}

// Run checks a namespace. With findings the exit code is 1.
func (c *checkCmd) Run(ctx context.Context, s streams) error {
	settings.RelaxGC()
	rdb, err := c.OpenRedis(ctx, c.Open(s.err))
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }() // only used for reading
	runner := redisx.NewRunner(rdb)
	defer runner.Close()
	space := redisx.NewSpace(c.Namespace.Namespace)
	n, err := rdb.HGet(ctx, space.Meta(), "partitions").Int()
	if resized := rdb.HExists(ctx, space.Meta(), "resize"); err == nil && resized.Val() {
		return fmt.Errorf("namespace %s: %w: check it again when the resize has ended", c.Namespace.Namespace, &partition.ResizedError{})
	}
	switch {
	case errors.Is(err, redis.Nil):
		return fmt.Errorf("there is no namespace %s in this Redis: has an orchestrator been started?", c.Namespace.Namespace)
	case err != nil:
		return fmt.Errorf("read namespace %s: %w", c.Namespace.Namespace, err)
	}
	var checked checkedSpace
	home := func(name string) int { return transport.PartitionOf(name, n) }
	if checked.CheckResult, err = checkSpace(ctx, s, store.New(runner, space), home); err != nil {
		return err
	}
	slices.Sort(checked.References)
	checked.Objects = len(checked.References)
	if err := checked.checkLimits(ctx, limiter.New(runner, space, home), n); err != nil {
		return err
	}
	if c.Objects {
		if err := checked.checkObjects(ctx, s, c, store.New(runner, space), home); err != nil {
			return err
		}
	}
	if checked.Findings == nil {
		checked.Findings = []store.Finding{} // not null in JSON
	}
	if c.JSON {
		err = writeJSON(s.out, checked)
	} else {
		err = findings(s, checked)
	}
	if err == nil && checked.number() > 0 {
		return settings.ExitCode(settings.ExitFailed)
	}
	return err
}

// checkedSpace is the result of the check of a namespace.
type checkedSpace struct {
	store.CheckResult

	Limits        int            `json:"limits"` // limits in use
	LimitFindings []limitFinding `json:"limit_findings,omitempty"`
	Objects       int            `json:"objects"` // references to large payloads
	LostObjects   []string       `json:"lost_objects,omitempty"`
	Orphans       []string       `json:"orphaned_objects,omitempty"` // old large payloads without a reference
}

// limitFinding is an invariant that a limit violates.
type limitFinding struct {
	Limit string `json:"limit"`
	Rule  string `json:"rule"`
}

func (c *checkedSpace) number() int {
	return len(c.Findings) + len(c.LimitFindings) + len(c.LostObjects) + len(c.Orphans)
}

// checkObjects finds lost objects, and objects that the orchestrators should have removed.
func (c *checkedSpace) checkObjects(ctx context.Context, s streams, o *checkCmd, st *store.Store, home func(instance string) int) error {
	nc, err := o.OpenNATS(o.Open(s.err))
	if err != nil {
		return err
	}
	defer nc.Close()
	conn, err := transport.JoinToPublish(ctx, nc, transport.Options{Namespace: o.Namespace.Namespace})
	if err != nil {
		return err
	}
	defer conn.Close()
	if c.LostObjects, err = conn.LostObjects(ctx, c.References); err != nil {
		return err
	}
	err = conn.Objects(ctx, o.OrphanAge, func(page []transport.StoredObject) error { return c.checkOrphans(ctx, st, home, page) })
	if errors.Is(err, transport.ErrPermission) {
		err = term.Line(s.err, "Objects without a reference were not checked: this requires the permissions of an operator on NATS.")
	} else if err != nil {
		err = fmt.Errorf("list objects: %w", err)
	}
	return err
}

// checkOrphans finds objects to which none of their owners refers.
func (c *checkedSpace) checkOrphans(ctx context.Context, st *store.Store, home func(instance string) int, page []transport.StoredObject) error {
	for _, o := range page {
		_, mentioned := slices.BinarySearch(c.References, o.Name)
		for _, owner := range o.Owners {
			if mentioned || transport.CheckInstance(owner) != nil { // an invalid id: another program wrote the object
				continue
			}
			names, err := st.Mentions(ctx, home(owner), owner, []string{o.Name})
			if err != nil && !store.Unreadable(err) {
				return err
			}
			mentioned = err != nil || len(names) > 0
		}
		if !mentioned {
			c.Orphans = append(c.Orphans, o.Name)
		}
	}
	return nil
}

// checkLimits checks the limits in use.
func (c *checkedSpace) checkLimits(ctx context.Context, limits *limiter.Limiter, partitions int) error {
	for p := range partitions {
		names, err := limits.Scheduled(ctx, p)
		if err != nil {
			return err
		}
		for _, name := range names {
			c.Limits++
			for _, broken := range limits.Check(ctx, name) {
				c.LimitFindings = append(c.LimitFindings, limitFinding{Limit: name, Rule: strings.TrimPrefix(broken.Error(), "limit "+name+": ")})
			}
		}
	}
	return nil
}

// checkSpace checks the instances of a namespace, and shows progress if that takes long.
func checkSpace(ctx context.Context, s streams, st *store.Store, home func(instance string) int) (store.CheckResult, error) {
	begun := time.Now()
	var p *term.Progress
	checked, err := st.Check(ctx, home, func(done, of int) {
		if p == nil && time.Since(begun) > progressDelay {
			p = term.NewProgress(s.err, of, "instances")
		}
		if p != nil {
			p.Set(done)
		}
	})
	if p != nil {
		p.End()
	}
	return checked, err
}

func findings(s streams, c checkedSpace) error {
	instances := &term.Table{Header: []string{"INSTANCE", "FINDING"}, Fold: 2}
	for _, f := range c.Findings {
		instances.Add(f.Instance, f.Rule)
	}
	limits := &term.Table{Header: []string{"LIMIT", "FINDING"}, Fold: 2}
	for _, f := range c.LimitFindings {
		limits.Add(f.Limit, f.Rule)
	}
	for _, t := range []*term.Table{instances, limits} {
		if len(t.Rows) > 0 {
			if err := t.Write(s.out); err != nil {
				return err
			}
		}
	}
	var lines []string
	for _, name := range c.LostObjects {
		lines = append(lines, fmt.Sprintf("object %s is lost", name))
	}
	for _, name := range c.Orphans {
		lines = append(lines, fmt.Sprintf("object %s is orphaned: nothing refers to it", name))
	}
	lines = append(lines, fmt.Sprintf("%s (%d running, %d stalled), %s, %s, %s, %s: %s",
		diagnose.Counted(c.Instances, "instance"), c.Running, c.Stalled, diagnose.Counted(int(c.Events), "event"), diagnose.Counted(c.Leases, "lease"), //nolint:gosec // far below the maximum
		diagnose.Counted(c.Unread, "unread input"), diagnose.Counted(c.Limits, "limit"), diagnose.Counted(c.number(), "finding")))
	for _, line := range lines {
		if err := term.Line(s.out, line); err != nil {
			return err
		}
	}
	return nil
}
