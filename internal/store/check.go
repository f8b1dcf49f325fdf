package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl/internal/outage"
)

// Finding is a violation of an invariant of the store.
type Finding struct {
	Partition int    `json:"partition"`
	Instance  string `json:"instance,omitempty"`
	Rule      string `json:"rule"`
}

// String returns the partition or instance, and the rule.
func (f Finding) String() string {
	if f.Instance == "" {
		return fmt.Sprintf("partition %d: %s", f.Partition, f.Rule)
	}
	return fmt.Sprintf("instance %s (partition %d): %s", f.Instance, f.Partition, f.Rule)
}

// CheckResult contains the counts and the findings of a check.
type CheckResult struct {
	Instances int       `json:"instances"`
	Running   int       `json:"running"`
	Events    uint64    `json:"events"`
	Leases    int       `json:"leases"`
	Unread    int       `json:"unread"`
	Stalled   int       `json:"stalled"`
	Findings  []Finding `json:"findings"`

	References []string `json:"-"` // names of objects: references to large payloads in the object store
}

// The check reads a store that is in use. An apparent violation is read again after a pause, and becomes a finding only if it persists.
const (
	checkTries = 4
	checkPause = 250 * time.Millisecond

	checkBatch    = 128 // instances that are read together, in common pipelines
	checkParallel = 4   // concurrent batches or partitions
	// checkKeys bounds the memory use: a namespace with more keys is checked in several sweeps, each over some of the partitions. The
	// names of that many keys take about 100 MB.
	checkKeys = 500_000
)

// Check reads the whole namespace and reports every violation of these invariants. It writes nothing and may run next to the fleet:
//
//   - histories can be decoded and satisfy the rules of fold.Check;
//   - the record of an instance matches its history, and is in the index of its status and no other, in the sets of its values and no
//     other, with the same score, and in the set of ids;
//   - an outstanding activity has its lease, or its completion is unread;
//   - a lease belongs to an outstanding activity;
//   - an execution that has just begun has no history yet, and its start is the first unread input; no later one has a history;
//   - histories and reports are those of the current execution and the one before and, until the current one has committed
//     its first turn, of the one before that;
//   - an instance without a record has nothing but unread inputs: neither history, lease, report nor index entry and, without
//     unread inputs, neither a wakeup nor an entry among the stalled instances;
//   - the outbox watermark lies within the history, and covers every message of it;
//   - an update that is open in the ledger is unread, or open in the history; one that is open in the history is not answered there;
//   - all data of an instance is in its partition, which home returns; nil: not checked;
//   - early inputs are counted for instances without a record, and their bytes add up;
//   - an instance that must be reconciled (unread inputs, outstanding activities and children, timers, pending messages) has a wakeup.
//
// progress, if not nil, is called with the number of instances that were checked, and their approximate total.
func (s *Store) Check(ctx context.Context, home func(instance string) int, progress func(done, of int)) (CheckResult, error) {
	return s.check(ctx, checkKeys, home, progress)
}

func (s *Store) check(ctx context.Context, keys int, home func(instance string) int, progress func(done, of int)) (CheckResult, error) {
	c := &checker{reader: &s.Reader, maxKeys: keys, home: home, progress: progress, sweeps: []sweep{{0, 1}}}
	for len(c.sweeps) > 0 {
		if err := c.next(ctx); err != nil {
			return c.out, err
		}
	}
	slices.SortStableFunc(c.out.Findings, func(a, b Finding) int {
		return cmp.Or(a.Partition-b.Partition, cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Rule, b.Rule))
	})
	return c.out, nil
}

// checker checks one namespace.
//
//	SCAN, lists of the partitions ──▶ instances ──▶ batches ──▶ rules ──▶ counts
//	                                      ▲                       │
//	                                      └── suspects, after a pause ──▶ findings, after the last try
type checker struct {
	reader *Reader

	maxKeys  int
	home     func(instance string) int // may be nil
	progress func(done, of int)

	mu       sync.Mutex
	sweeps   []sweep // remaining sweeps
	out      CheckResult
	done     int
	suspects []*subject
}

// sweep is a part of the namespace: the partitions that are n modulo of.
type sweep struct{ n, of int }

func (s sweep) has(part int) bool { return part%s.of == s.n }

// subject is an instance to check, with its entries from the scan and the lists.
type subject struct {
	part     int
	id       string
	held     []heldKey // its leases, histories and reports
	statuses uint8     // statuses whose indexes contain it, as bits in the order of Statuses
	values   []setScore
	inbox    bool
	ledger   bool // it has a ledger of updates
	listed   bool // it is in the list of stalled instances
	early    bool // its early inputs are counted
	due      bool // it has a wakeup
	wakeup   float64
}

// setScore is the score of an instance in a set of values.
type setScore struct {
	key   string
	score float64
}

// heldKey is a key of an execution of an instance.
type heldKey struct {
	kind                byte // h, l, r
	execution, activity uint64
}

// next executes the next sweep.
func (c *checker) next(ctx context.Context) error {
	found, of, err := c.scan(ctx)
	if err != nil {
		return err
	}
	g, listing := errgroup.WithContext(ctx)
	g.SetLimit(checkParallel)
	for part, keys := range found {
		g.Go(func() error { return c.partition(listing, part, keys) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var subjects []*subject
	for _, keys := range found {
		for _, x := range keys.instances {
			subjects = append(subjects, x)
		}
		keys.instances = nil
	}
	total := max(len(subjects)*of, c.done+len(subjects))
	for try := 1; len(subjects) > 0; try++ {
		if try > 1 && !outage.Sleep(ctx, checkPause) {
			return context.Cause(ctx)
		}
		if err := c.all(ctx, subjects, try, total); err != nil {
			return err
		}
		subjects, c.suspects = c.suspects, nil
	}
	return nil
}

// all checks instances in batches. An instance that seems to break a rule becomes a suspect, or a finding at the last try.
func (c *checker) all(ctx context.Context, subjects []*subject, try, total int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(checkParallel)
	for batch := range slices.Chunk(subjects, checkBatch) {
		g.Go(func() error {
			checks := make([]*instanceCheck, len(batch))
			for i, x := range batch {
				checks[i] = &instanceCheck{subject: x, keys: c.reader.space.Part(x.part), result: CheckResult{Instances: 1}}
			}
			if err := c.read(ctx, checks, try > 1); err != nil {
				return err
			}
			for _, x := range checks {
				x.run()
				if c.home != nil && c.home(x.id) != x.part {
					x.violationf("belongs to partition %d", c.home(x.id))
				}
			}
			c.take(checks, try, total)
			return nil
		})
	}
	return g.Wait()
}

// take adds the results of a batch.
func (c *checker) take(checks []*instanceCheck, try, total int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range checks {
		if len(x.violations) > 0 && try < checkTries {
			c.suspects = append(c.suspects, x.subject)
			continue
		}
		c.done++
		c.out.add(x.result)
		for _, rule := range x.violations {
			c.out.Findings = append(c.out.Findings, Finding{Partition: x.part, Instance: x.id, Rule: rule})
		}
	}
	if c.progress != nil {
		c.progress(c.done, total)
	}
}

func (c *checker) findf(part int, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Findings = append(c.out.Findings, Finding{Partition: part, Rule: fmt.Sprintf(format, args...)})
}

func (c *CheckResult) add(x CheckResult) {
	c.Instances += x.Instances
	c.Running += x.Running
	c.Events += x.Events
	c.Leases += x.Leases
	c.Unread += x.Unread
	c.References = append(c.References, x.References...)
}
