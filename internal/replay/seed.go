package replay

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"

	"github.com/pawlrun/pawl/internal/effectid"
)

// seeds numbers the draws of random numbers: by the inputs and schedules so far, which are the same on replay, and by the draws since the
// last of them.
type seeds struct {
	position uint64
	draw     uint64
}

func (s *seeds) advance() {
	s.position++
	s.draw = 0
}

func (x *record) seed(purpose string) [32]byte {
	x.seeds.draw++
	b := make([]byte, 0, 256)
	b = effectid.AppendText(b, purpose)
	b = x.id.Append(b)
	b = binary.BigEndian.AppendUint64(b, x.seeds.position)
	b = binary.BigEndian.AppendUint64(b, x.seeds.draw)
	return sha256.Sum256(b)
}

// NewID returns an id in the format of a UUID (version 8, RFC 9562) that is unique to this point of this execution and the same on
// replay.
func (x *record) NewID() string {
	x.mustEnter()
	id := x.seed("id")
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

// Rand returns a source of random numbers that is seeded by this point of the execution, so it returns the same numbers on replay.
func (x *record) Rand() *rand.Rand {
	x.mustEnter()
	return rand.New(rand.NewChaCha8(x.seed("rand")))
}

// mustEnter is enter for methods without an error result. On a strand it panics, and the execution fails. On a goroutine that the author
// started, a panic would crash the process, so mustEnter ends that goroutine instead.
func (x *scheduler) mustEnter() {
	_, err := x.enter()
	if err == nil {
		return
	}
	if m := (*Misuse)(nil); errors.As(err, &m) && m.foreign {
		x.opts.Logger.Error("context used on another goroutine, goroutine ended", "error", err)
		runtime.Goexit()
	}
	panic(err)
}
