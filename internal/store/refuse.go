package store

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/text"
)

//go:embed refuse.lua
var refuseLua string

// Bounds of the refusals that are kept for a partition.
const (
	maxRefusals = 100
	refusalTTL  = 24 * time.Hour
	maxReason   = 512 // bytes of the reason, which quotes the refused input
)

// Refuse records refusals. Only the last maxRefusals are kept.
func (s *Store) Refuse(ctx context.Context, t Tenure, rs []record.Refusal) error {
	var entries []string
	for _, r := range rs[max(0, len(rs)-maxRefusals):] {
		r.Reason = text.Shorten(r.Reason, maxReason)
		b, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("partition %d: encode a refusal: %w", t.Part, err)
		}
		entries = append(entries, string(b))
	}
	return s.writeRefusals(ctx, t, entries, nil)
}

// RemoveRefusals removes the refusals of an instance id, and reports whether there were any.
func (s *Store) RemoveRefusals(ctx context.Context, t Tenure, instance string) (bool, error) {
	var gone []string
	err := s.refusals(ctx, t.Part, func(x record.Refusal, encoded string) {
		if x.Instance == instance {
			gone = append(gone, encoded)
		}
	})
	if err != nil || len(gone) == 0 {
		return false, err
	}
	return true, s.writeRefusals(ctx, t, nil, gone)
}

func (s *Store) writeRefusals(ctx context.Context, t Tenure, entries, gone []string) error {
	p := s.space.Part(t.Part)
	args := []any{t.Token, maxRefusals, refusalTTL.Milliseconds(), len(entries)}
	for _, entry := range slices.Concat(entries, gone) {
		args = append(args, entry)
	}
	v, err := s.run.Do(ctx, redisx.Call{Script: s.refuse, Keys: []string{p.Owner(), p.Refused()}, Args: args})
	if _, err = okReply("refuse", v, err); err != nil {
		return fmt.Errorf("partition %d: write refusals: %w", t.Part, err)
	}
	return nil
}

// Refusals reads the recent refusals of a partition, newest first.
func (s *Reader) Refusals(ctx context.Context, part int) (all []record.Refusal, err error) {
	return all, s.refusals(ctx, part, func(x record.Refusal, _ string) { all = append(all, x) })
}

func (s *Reader) refusals(ctx context.Context, part int, each func(x record.Refusal, encoded string)) error {
	all, err := s.strs(ctx, redisx.Command("LRANGE", s.space.Part(part).Refused(), 0, -1))
	if err != nil {
		return fmt.Errorf("partition %d: read refusals: %w", part, err)
	}
	for _, encoded := range all {
		var x record.Refusal
		if err := json.Unmarshal([]byte(encoded), &x); err != nil {
			return fmt.Errorf("partition %d: decode a refusal: %w", part, err)
		}
		each(x, encoded)
	}
	return nil
}
