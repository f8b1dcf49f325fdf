package sealing_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

func key(t testing.TB, id string) pawlcodec.Key {
	t.Helper()
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	k, err := pawlcodec.NewKey(id, secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func codec(t testing.TB, o pawlcodec.Options) *sealing.Codec {
	t.Helper()
	c, err := pawlcodec.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return (*sealing.Codec)(c)
}

func json(s string) history.Payload { return history.Payload{Type: history.TypeJSON, Data: []byte(s)} }

func same(p, q history.Payload) bool { return p.Type == q.Type && bytes.Equal(p.Data, q.Data) }

func TestOpenReturnsWhatWasSealed(t *testing.T) {
	keys := pawlcodec.Keys(key(t, "k1"))
	all := []*sealing.Codec{nil, codec(t, pawlcodec.Options{Compress: true}), codec(t, pawlcodec.Options{Keys: keys}), codec(t, pawlcodec.Options{Compress: true, Keys: keys})}
	rapid.Check(t, func(r *rapid.T) {
		p := history.Payload{Type: rapid.StringN(1, 20, 40).Draw(r, "type"), Data: bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(r, "data"), rapid.IntRange(1, 30).Draw(r, "times"))}
		for i, c := range all {
			sealed := c.Seal(nil, p)
			if opened, err := c.Open(sealed); err != nil || !same(opened, p) {
				r.Fatalf("codec %d: opened %+v, want %+v, %v", i, opened, p, err)
			}
			if again := c.Seal(nil, sealed); !same(again, sealed) {
				r.Fatalf("codec %d seals twice", i)
			}
		}
	})
}

func TestEachPlaceHasOtherBytesAndARepeatTheSame(t *testing.T) {
	c := codec(t, pawlcodec.Options{Compress: true, Keys: pawlcodec.Keys(key(t, "k1"))})
	p := json(`true`)
	one := c.Seal([]byte("place 1"), p)
	if !same(one, c.Seal([]byte("place 1"), p)) {
		t.Error("a repeat has other bytes, and so another effect id")
	}
	for what, other := range map[string]history.Payload{
		"another place": c.Seal([]byte("place 2"), p), "another content": c.Seal([]byte("place 1"), json(`null`)), "no place": c.Seal(nil, p),
	} {
		if bytes.Equal(one.Data[:8+24], other.Data[:8+24]) {
			t.Errorf("%s has the same salt", what)
		}
	}
	if same(c.Seal(nil, p), c.Seal(nil, p)) {
		t.Error("two payloads of no place have the same bytes")
	}
}

func TestMissingKeyIsNamedAndDamageIsFound(t *testing.T) {
	old, current := key(t, "k1"), key(t, "k2")
	sealed := codec(t, pawlcodec.Options{Keys: pawlcodec.Keys(old)}).Seal(nil, json(`"x"`))
	for what, c := range map[string]*sealing.Codec{
		"no codec": nil, "no keys": codec(t, pawlcodec.Options{Compress: true}), "other keys": codec(t, pawlcodec.Options{Keys: pawlcodec.Keys(current)}),
		"another key of the id": codec(t, pawlcodec.Options{Keys: pawlcodec.Keys(key(t, "k1"))}),
	} {
		_, err := c.Open(sealed)
		missing, ok := errors.AsType[*sealing.KeyError](err)
		if !ok || missing.ID != "k1" || !errors.Is(err, sealing.ErrNoKey) || !strings.Contains(err.Error(), `"k1"`) || c.CanOpen(sealed) == nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	c := codec(t, pawlcodec.Options{Keys: pawlcodec.Keys(current, old)})
	if opened, err := c.Open(sealed); err != nil || !same(opened, json(`"x"`)) {
		t.Errorf("after a rotation: %+v, %v", opened, err)
	}
	for i := range sealed.Data {
		changed := history.Payload{Type: sealed.Type, Data: bytes.Clone(sealed.Data)}
		changed.Data[i] ^= 1
		if opened, err := c.Open(changed); err == nil || !same(opened, changed) {
			t.Errorf("byte %d changed: %+v, %v", i, opened, err)
		}
	}
	for n := range len(sealed.Data) {
		if _, err := c.Open(history.Payload{Type: sealed.Type, Data: sealed.Data[:n]}); err == nil {
			t.Errorf("the first %d bytes are opened", n)
		}
	}
}

// Every client that may send can send such a payload, also to a fleet without a codec.
func TestCompressedPayloadCannotTakeMuchMemory(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := func(size int) history.Payload {
		body := append(effectid.AppendText(nil, history.TypeJSON), bytes.Repeat([]byte(" "), size)...)
		return history.Payload{Type: history.TypeSealed, Data: enc.EncodeAll(body, []byte{1, 1})}
	}
	var none *sealing.Codec
	for _, size := range []int{600 << 10, 16<<20 - 100, 64 << 20} {
		bomb := packed(size)
		if _, err := none.Open(bomb); !errors.Is(err, sealing.ErrDamaged) {
			t.Errorf("%d bytes are opened to %d, %v", len(bomb.Data), size, err)
		}
	}
	bomb := packed(300 << 10)
	bomb.Data = append(bomb.Data, bomb.Data[2:]...) // two frames
	if _, err := none.Open(bomb); !errors.Is(err, sealing.ErrDamaged) {
		t.Errorf("two frames of 300 KiB are opened, %v", err)
	}
	if p, err := none.Open(packed(transport.MaxPayload)); err != nil || len(p.Data) != transport.MaxPayload {
		t.Errorf("the largest payload: %d bytes, %v", len(p.Data), err)
	}
}

func TestPayloadThatIsTooLongToBeOpenedIsNotCompressed(t *testing.T) {
	c := codec(t, pawlcodec.Options{Compress: true})
	long := json(strings.Repeat(" ", 600<<10))
	sealed := c.Seal(nil, long)
	if p, err := c.Open(sealed); err != nil || !same(p, long) || len(sealed.Data) < len(long.Data) {
		t.Errorf("%d bytes, %v", len(sealed.Data), err)
	}
}

// Key and nonce are derived from the salt, so two texts with the same salt would reveal their difference.
func TestSaltsOfDifferentTextsDiffer(t *testing.T) {
	k := key(t, "k1")
	p := json(`"` + strings.Repeat("a", 1000) + `"`)
	seen := map[string]bool{}
	for _, compress := range []bool{false, true} {
		sealed := codec(t, pawlcodec.Options{Compress: compress, Keys: pawlcodec.Keys(k)}).Seal([]byte("place"), p)
		n := 3 + len("k1") + 4
		seen[string(sealed.Data[n:n+24])] = true
	}
	if len(seen) != 2 {
		t.Error("the compressed text has the salt of the one that is not compressed")
	}
}

func TestUnknownKeyIDIsReportedAsDamage(t *testing.T) {
	c := codec(t, pawlcodec.Options{Keys: pawlcodec.Keys(key(t, "k1"))})
	for _, id := range []string{"", "a/b", "\xff", strings.Repeat("x", 65)} {
		data := append([]byte{1, 2, byte(len(id))}, id...)
		p := history.Payload{Type: history.TypeSealed, Data: append(data, make([]byte, 60)...)}
		if _, err := c.Open(p); !errors.Is(err, sealing.ErrDamaged) || c.CanOpen(p) != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// changing is a provider whose current key changes.
type changing struct{ current pawlcodec.Key }

func (c *changing) Current() (pawlcodec.Key, error) { return c.current, nil }
func (*changing) Key(string) (pawlcodec.Key, error) { return pawlcodec.Key{}, nil }

func TestZeroKeyIsRejected(t *testing.T) {
	if _, err := pawlcodec.New(pawlcodec.Options{Keys: pawlcodec.Keys(pawlcodec.Key{})}); !errors.Is(err, sealing.ErrNoKey) {
		t.Errorf("as the only key: %v", err)
	}
	p := &changing{current: key(t, "k1")}
	c := codec(t, pawlcodec.Options{Keys: p})
	p.current = pawlcodec.Key{}
	sealed := c.Seal(nil, json(`1`))
	if got := sealing.Describe(sealed); !strings.Contains(got, "k1") {
		t.Errorf("later: %s", got)
	}
	if _, err := c.Open(sealed); !errors.Is(err, sealing.ErrNoKey) {
		t.Errorf("as an earlier key: %v", err)
	}
}

func TestFailureIsSealedExceptForItsCodes(t *testing.T) {
	c := codec(t, pawlcodec.Options{Keys: pawlcodec.Keys(key(t, "k1"))})
	f := &history.Failure{Code: "declined", Message: "secret", Stack: "secret", Data: json(`"secret"`), Permanent: true, Also: []string{"other"}}
	e := &history.UpdateAnswered{Update: 3, Failure: f}
	c.SealEvent([]byte("place"), e)
	sealed := e.Failure
	b, err := eventcodec.Encode(e)
	if err != nil || bytes.Contains(b, []byte("secret")) || sealed.Code != "declined" || !sealed.Permanent || len(sealed.Also) != 1 || f.Message != "secret" {
		t.Errorf("sealed: %+v of %+v, %v", sealed, f, err)
	}
	if err := c.OpenEvent(c.Open, e); err != nil || e.Failure.Message != "secret" || e.Failure.Stack != "secret" || !same(e.Failure.Data, f.Data) || e.Failure.Code != "declined" {
		t.Errorf("opened: %+v, %v", e.Failure, err)
	}
}

func TestFileOfKeysIsReadAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	line := func(id string, b byte) string {
		return id + "=" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) + "\n"
	}
	write("# the first\n" + line("k1", 1))
	keys, err := pawlcodec.FileKeys(file)
	if err != nil {
		t.Fatal(err)
	}
	c := codec(t, pawlcodec.Options{Keys: keys})
	before := c.Seal(nil, json(`1`))
	for _, broken := range []string{"", "k2", "k2=AAAA", line("k/2", 1), line("k1", 1) + line("k1", 2)} {
		write(broken)
		if _, err := pawlcodec.FileKeys(file); err == nil || strings.Contains(err.Error(), "AAAA") {
			t.Errorf("%q: %v", broken, err)
		}
	}
	write(line("k2", 2) + line("k1", 1))
	poll.Until(t, time.Minute, "the new key is used", func() bool {
		return strings.Contains(sealing.Describe(c.Seal(nil, json(`1`))), "k2")
	})
	if _, err := c.Open(before); err != nil {
		t.Error(err)
	}
}

func BenchmarkSealAndOpen(b *testing.B) {
	for name, o := range map[string]pawlcodec.Options{
		"encrypt": {Keys: pawlcodec.Keys(key(b, "k1"))}, "both": {Compress: true, Keys: pawlcodec.Keys(key(b, "k1"))},
	} {
		c := codec(b, o)
		p := json(`{"order":"` + strings.Repeat("an item of it ", 70) + `"}`)
		b.Run(name+"-1KiB", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Open(c.Seal([]byte("place"), p)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
