package main

import (
	"io"

	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/history"
)

func eventTable(w io.Writer, events []history.Event) error {
	t := &term.Table{Header: []string{"ID", "AT (UTC)", "EVENT", "WHAT"}, Right: []int{0}}
	for _, e := range events {
		t.Add(e.Meta().ID, e.Meta().Time().Format("15:04:05.000"), show.Kind(e), short(show.Summary(e), shortCell))
	}
	return t.Write(w)
}
