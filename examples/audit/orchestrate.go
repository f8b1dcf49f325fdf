package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
)

const defaultParallel = 64

// Orchestrate runs the steps that the package comment lists.
func Orchestrate(ctx *pawl.Context, in Request) (Result, error) {
	list, err := listAll(ctx, in.Dir)
	if err != nil {
		return Result{}, err
	}
	limit := in.Parallel
	if limit <= 0 {
		limit = defaultParallel
	}
	summaries, err := pawl.Map(ctx, limit, list.Packages, func(ctx *pawl.Context, pkg string) (Summary, error) {
		return inspectOne(ctx, in.Dir, pkg)
	})
	if err != nil {
		return Result{}, err
	}
	sum := Totals{Problems: len(list.Problems)}
	for _, s := range summaries {
		sum.Add(s)
	}
	file, err := report(ctx, in, list.Problems, summaries, sum)
	return Result{Totals: sum, Report: file}, err
}

func listAll(ctx *pawl.Context, dir string) (Page, error) {
	var all Page
	for {
		p, err := ListPackages.Call(ctx, ListRequest{Dir: dir, After: all.Next}, persistent())
		if err != nil {
			return Page{}, err
		}
		all.Packages = append(all.Packages, p.Packages...)
		all.Problems = append(all.Problems, p.Problems...)
		all.Next = p.Next
		switch {
		case len(all.Packages) > MaxPackages:
			return Page{}, fmt.Errorf("%w: %s has more than %d; audit its parts one by one", ErrTooManyPackages, dir, MaxPackages)
		case p.Next == "" && len(all.Packages) == 0:
			return Page{}, fmt.Errorf("%w: %s", ErrNoPackages, dir)
		case p.Next == "":
			return all, nil
		}
	}
}

// inspectOne returns a summary even if the inspection fails, because a package that cannot be inspected must be named in the report and
// not end it. Only a cancellation is an error.
func inspectOne(ctx *pawl.Context, dir, pkg string) (Summary, error) {
	s, err := InspectPackage.Call(ctx, InspectRequest{Dir: dir, Package: pkg})
	if err == nil || errors.Is(err, context.Canceled) {
		return s, err
	}
	pawl.Logger(ctx).Warn("a package could not be inspected", "package", pkg, "error", err)
	return Summary{Package: pkg, Problems: []Problem{{Path: pkg, Text: clip(err.Error())}}}, nil
}

func report(ctx *pawl.Context, in Request, problems []Problem, summaries []Summary, sum Totals) (string, error) {
	spool := Spool{Out: in.Out, Run: pawl.Instance(ctx).Instance}
	parts := Split(problems, summaries)
	for i, p := range parts {
		if _, err := WritePart.Call(ctx, PartRequest{Spool: spool, Index: i, Part: p}, persistent()); err != nil {
			return "", err
		}
	}
	file, err := WriteReport.Call(ctx, ReportRequest{Spool: spool, Dir: in.Dir, Parts: len(parts), Totals: sum}, persistent())
	if err != nil {
		return "", err
	}
	_, err = SweepParts.Call(ctx, spool, persistent())
	return file, err
}

// persistent is the policy for activities that write to the disk, which may be full or unavailable for a short time.
func persistent() pawl.Retry { return pawl.Retry{Attempts: 4, Initial: 200 * time.Millisecond} }
