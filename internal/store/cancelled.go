package store

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
)

//go:embed cancelled.lua
var cancelledLua string

// Bounds of the recorded marks of cancelled children. A child that starts later is cancelled by its parent.
const (
	CancelledSpan = 5 * time.Minute
	maxCancelled  = 10_000
)

// AddCancelled records the marks of cancelled children: see effectid.Mark.
func (s *Store) AddCancelled(ctx context.Context, marks []string) error {
	args := make([]any, 0, 2+len(marks))
	args = append(args, CancelledSpan.Milliseconds(), maxCancelled)
	for _, m := range marks[max(0, len(marks)-maxCancelled):] {
		args = append(args, m)
	}
	if _, err := s.run.Do(ctx, redisx.Call{Script: s.cancelled, Keys: []string{s.space.Cancelled()}, Args: args}); err != nil {
		return fmt.Errorf("record cancelled children: %w", err)
	}
	return nil
}

// Cancelled reads the marks of children that were cancelled within CancelledSpan.
func (s *Reader) Cancelled(ctx context.Context) ([]string, error) {
	marks, err := s.strs(ctx, redisx.Command("ZRANGE", s.space.Cancelled(), 0, -1))
	if err != nil {
		return nil, fmt.Errorf("read cancelled children: %w", err)
	}
	return marks, nil
}
