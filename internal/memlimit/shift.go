package memlimit

// Shift moves all recorded times into the past by d ms. Zero means no time, such as no notice yet, and is kept.
func (g *Limit) Shift(d int64) {
	move := func(at *int64, by int64) {
		if *at != 0 {
			*at -= by
		}
	}
	for i := range g.Queue {
		g.Queue[i].Number -= d * 1000
	}
	for i := range g.Holders {
		move(&g.Holders[i].Known, d)
	}
	for i := range g.Rejections {
		move(&g.Rejections[i].NoticedAt, d)
	}
	for i := range g.Grants {
		g.Grants[i] -= d
	}
	move(&g.Last, d*1000)
	move(&g.Window, d)
	move(&g.Used, d)
}

// PlaceOf returns the position of a member, 0 for a holder, and the number of a waiter; ok is false if it is neither.
func (g *Limit) PlaceOf(m Member) (at int, number int64, ok bool) {
	if g.Holder(m) >= 0 {
		return 0, 0, true
	}
	if i := g.Waiter(m); i >= 0 {
		return i + 1, g.Queue[i].Number, true
	}
	return 0, 0, false
}

// Limited returns the time at which rate and quota allow the next grant, ms, or 0 if they allow one now. It removes the grants that no
// longer count.
func (g *Limit) Limited(now int64) int64 {
	g.dropGrants(now)
	return g.limitedUntil(now)
}
