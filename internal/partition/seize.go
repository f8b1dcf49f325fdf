package partition

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

//go:embed seize.lua
var seizeLua string

//go:embed settle.lua
var settleLua string

//go:embed change.lua
var changeLua string

// seizedFor is longer than any change of the number of partitions takes, including the pauses between its runs.
const seizedFor = 365 * 24 * time.Hour

// Errors of a change of the number of partitions.
var (
	// ErrNoNamespace is returned if the namespace does not exist in Redis.
	ErrNoNamespace = errors.New("redis does not have the namespace")
	// ErrChangeLost is returned if a later run has taken over the change.
	ErrChangeLost = errors.New("another run has taken the change over")
)

// HeldError is returned for a partition that has an owner.
type HeldError struct {
	Partition int
	Member    string
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("partition %d is owned by %s", e.Partition, e.Member)
}

// ResizedError is returned if the caller's number of partitions differs from that of the namespace.
type ResizedError struct {
	Have int // number of partitions of the namespace; 0: it is being changed
}

func (e *ResizedError) Error() string {
	if e.Have == 0 {
		return "partitions are being resized"
	}
	return "the namespace has " + strconv.Itoa(e.Have) + " partitions now"
}

// Change is one run of a change of the number of partitions. During the change it owns all partitions.
//
//	free ──Seize──▶ seized ──Begin──▶ seized, position reset ──Release──▶ free, for members with the new number
//
// Each step may be repeated. Only Seize can find a partition that has an owner, and then changes nothing. A later run takes over the change
// with another token: it takes the state first, and then all partitions, which fences all writes of the earlier run.
type Change struct {
	Token string // random, identifies this run

	run                  *redisx.Runner
	space                redisx.Space
	seize, settle, state *redisx.Script
}

// NewChange returns a run of a change. It writes nothing before Take.
func NewChange(run *redisx.Runner, space redisx.Space) *Change {
	return &Change{
		Token: rand.Text(), run: run, space: space,
		seize: redisx.NewScript("seize", "", seizeLua,
			"partition",
			"token change new_secret span#"),
		settle: redisx.NewScript("settle", "", settleLua,
			"partition",
			"token change partitions"),
		state: redisx.NewScript("change", "", changeLua,
			"meta",
			"token verb state"),
	}
}

// Take fences earlier runs, and returns the number of partitions and the saved state of the change; "": there is no change yet. The error is
// ErrNoNamespace without a namespace.
func (c *Change) Take(ctx context.Context) (partitions int, state string, err error) {
	return c.meta(ctx, "take", "")
}

// Save writes the state of the change.
func (c *Change) Save(ctx context.Context, state string) error {
	_, _, err := c.meta(ctx, "save", state)
	return err
}

// Commit writes the new number of partitions, and ends the change.
func (c *Change) Commit(ctx context.Context, partitions int) error {
	_, _, err := c.meta(ctx, "commit", strconv.Itoa(partitions))
	return err
}

func (c *Change) meta(ctx context.Context, verb, state string) (int, string, error) {
	v, err := c.run.Do(ctx, redisx.Call{Script: c.state, Keys: []string{c.space.Meta()}, Args: []any{c.Token, verb, state}})
	if err != nil {
		return 0, "", fmt.Errorf("change of the number of partitions: %s: %w", verb, err)
	}
	r := redisx.NewReply(v)
	switch r.Str(0) {
	case "OK":
		return int(r.Int(1)), r.Str(2), r.Err()
	case "NONE":
		return 0, "", ErrNoNamespace
	default:
		return 0, "", errors.Join(ErrChangeLost, r.Err())
	}
}

// Seize takes a partition for the change with that id, so that only this run can write it. It returns the position up to which its inputs
// are ingested, and its secret. The error is a *HeldError if the partition has an owner.
func (c *Change) Seize(ctx context.Context, id string, part int) (applied history.Position, secret string, err error) {
	v, err := c.run.Do(ctx, redisx.Call{
		Script: c.seize, Keys: []string{c.space.Part(part).Owner()}, Args: []any{c.Token, id, rand.Text(), seizedFor.Milliseconds()},
	})
	if err != nil {
		return history.Position{}, "", fmt.Errorf("partition %d: seize: %w", part, err)
	}
	r := redisx.NewReply(v)
	if r.Str(0) != "OK" {
		return history.Position{}, "", errors.Join(&HeldError{Partition: part, Member: r.Str(1)}, r.Err())
	}
	return history.Position{Seq: uint64(r.Int(1)), Time: r.Int(2)}, r.Str(3), r.Err() //nolint:gosec // a stream's sequence is below 2^63
}

// Begin resets the position of a seized partition, once per change.
func (c *Change) Begin(ctx context.Context, id string, part int) error {
	return c.settled(ctx, id, part, "")
}

// Release releases a seized partition to members with the new number of partitions.
func (c *Change) Release(ctx context.Context, id string, part, partitions int) error {
	return c.settled(ctx, id, part, strconv.Itoa(partitions))
}

func (c *Change) settled(ctx context.Context, id string, part int, partitions string) error {
	v, err := c.run.Do(ctx, redisx.Call{Script: c.settle, Keys: []string{c.space.Part(part).Owner()}, Args: []any{c.Token, id, partitions}})
	if err != nil {
		return fmt.Errorf("partition %d: settle: %w", part, err)
	}
	if r := redisx.NewReply(v); r.Str(0) != "OK" {
		return fmt.Errorf("partition %d: %w", part, ErrChangeLost)
	}
	return nil
}
