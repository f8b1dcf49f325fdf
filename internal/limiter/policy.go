package limiter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// ErrLevel is the error of an unknown policy level.
var ErrLevel = errors.New("no such level of policies")

const versionField = "version" // no level has this name

// Overrides reads the policies that were set at run time.
func (g *Limiter) Overrides(ctx context.Context) (*limit.Overrides, error) {
	v, err := g.run.Do(ctx, redisx.Call{Script: g.script.policies, Keys: []string{g.space.Policies()}})
	if err != nil {
		return nil, fmt.Errorf("read the policies: %w", err)
	}
	r := redisx.NewReply(v)
	o := &limit.Overrides{Policies: make(map[string]history.Policy)}
	for i := 0; i+1 < r.Len(); i += 2 {
		level, text := r.Str(i), r.Str(i+1)
		if level == versionField {
			if o.Version, err = strconv.ParseUint(text, 10, 64); err != nil {
				return nil, fmt.Errorf("read the policies: their version: %w", err)
			}
			continue
		}
		var p history.Policy
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return nil, fmt.Errorf("read the policies: that of %s: %w", level, err)
		}
		o.Policies[level] = p
	}
	return o, r.Err()
}

// SetPolicy sets the policy of a level. The error matches ErrLevel or is a *history.PolicyError. Every change raises the version, even
// above a version that Redis has lost.
func (g *Limiter) SetPolicy(ctx context.Context, level string, p history.Policy) (version uint64, err error) {
	if err := checkLevel(level); err != nil {
		return 0, err
	}
	if err := cmp.Or(limit.CheckPolicy(level, p), p.Validate()); err != nil {
		return 0, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return 0, fmt.Errorf("set the policy of %s: %w", level, err)
	}
	_, version, err = g.changePolicy(ctx, level, string(text))
	return version, err
}

// DeletePolicy removes the policy of a level, so that the policy declared by the code is in force again. It changes nothing if none was
// set.
func (g *Limiter) DeletePolicy(ctx context.Context, level string) (existed bool, version uint64, err error) {
	if err := checkLevel(level); err != nil {
		return false, 0, err
	}
	return g.changePolicy(ctx, level, "")
}

func (g *Limiter) changePolicy(ctx context.Context, level, text string) (existed bool, version uint64, err error) {
	v, err := g.run.Do(ctx, redisx.Call{Script: g.script.policy, Keys: []string{g.space.Policies()}, Args: []any{level, text}})
	if err != nil {
		return false, 0, fmt.Errorf("change the policy of %s: %w", level, err)
	}
	r := redisx.NewReply(v)
	return r.Int(0) == 1, uint64(r.Int(1)), r.Err() //nolint:gosec // a time, or one more
}

// BumpPolicyVersion raises the version of the policies above the version known, unless it is as high already. Otherwise, after Redis has
// lost the change with that version, limits that have received it would reject every newer policy.
func (g *Limiter) BumpPolicyVersion(ctx context.Context, known uint64) error {
	if _, err := g.run.Do(ctx, redisx.Call{Script: g.script.bumpVersion, Keys: []string{g.space.Policies()}, Args: []any{strconv.FormatUint(known, 10)}}); err != nil {
		return fmt.Errorf("raise the version of the policies: %w", err)
	}
	return nil
}

func checkLevel(level string) error {
	for _, prefix := range []string{limit.ActionLevel, limit.GroupLevel, limit.PauseLevel} {
		if name, ok := strings.CutPrefix(level, prefix); ok && name != "" {
			return nil
		}
	}
	if level == limit.GlobalLevel {
		return nil
	}
	return fmt.Errorf(`%w: %q; there are "action:<name>", "group:<name>", "pause:<name>" and "global"`, ErrLevel, level)
}
