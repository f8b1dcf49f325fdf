package partition

import (
	"testing"
	"time"
)

// After an outage of the server the members reconnect one after the other. None of them is cut off while another one is
// reading, unless it reconnects later than the first one by more than CutOff.
func TestServerOutageMovesNoPartition(t *testing.T) {
	const limit, probe, beat = 5000, 1000, 1000 // ms
	for length := 500; length <= 20_000; length += 500 {
		for late := 0; late <= limit-probe-beat; late += 500 { // delay with which b reconnects after a
			for phase := 0; phase < beat; phase += 250 { // offset of the heartbeats of b
				a := world{down: 20_000, up: 20_000 + length}
				b := world{down: 20_000, up: 20_000 + length + late, phase: phase}
				for at := 10_000; at < 60_000; at += 250 {
					members := []Member{{Name: "a", Reach: a.beat(at, beat, probe, limit)}, {Name: "b", Reach: b.beat(at, beat, probe, limit)}}
					if got := Eligible(members); len(got) != 2 {
						t.Fatalf("outage of %d ms, b reconnects %d ms later: at %d only %v of %v", length, late, at-20_000, got, members)
					}
				}
			}
		}
	}
}

// world is a member that receives no inputs from down until up.
type world struct{ down, up, phase int }

// beat returns the reach in the member's last heartbeat.
func (w world) beat(at, every, probe, limit int) Reach {
	at -= (at + w.phase) % every
	last := at - (at+w.phase)%probe
	if last >= w.down && last < w.up {
		last = w.down - 1 - (w.down-1+w.phase)%probe
	}
	since := 0
	if last >= w.up {
		since = w.up
	}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	return reach(ms(at-last), ms(last-since), ms(limit))
}
