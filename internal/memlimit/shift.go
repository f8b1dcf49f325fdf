package memlimit

// Shift moves what the gate remembers of time into the past, in ms. Zero is no time: no notice has been sent yet.
func (g *Gate) Shift(d int64) {
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
	for i := range g.Away {
		move(&g.Away[i].Told, d)
	}
	for i := range g.Grants {
		g.Grants[i] -= d
	}
	move(&g.Last, d*1000)
	move(&g.Window, d)
	move(&g.Used, d)
}

// Stands returns the position of a member: 0 if it is in, otherwise its place, and its number.
func (g *Gate) Stands(m Member) (at int, number int64, ok bool) {
	if g.Holder(m) >= 0 {
		return 0, 0, true
	}
	if i := g.Waiter(m); i >= 0 {
		return i + 1, g.Queue[i].Number, true
	}
	return 0, 0, false
}

// Limited is when rate and quota allow the next one, in ms; 0 if they do. It forgets what does not count any more.
func (g *Gate) Limited(now int64) int64 {
	g.window(now)
	return g.until(now)
}
