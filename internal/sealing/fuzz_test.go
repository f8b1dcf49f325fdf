package sealing_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

// maxWithoutStore is the maximum size of an opened payload that is not in the object store, in bytes, with its type.
const maxWithoutStore = sealing.MaxInline + 64<<10

// FuzzOpen opens any bytes as a sealed payload, with any bytes as the object that they refer to. An error is typed and has a bounded text. An
// opened payload has a bounded size, and is the same after it is sealed and opened again. The sealed bytes are not changed.
func FuzzOpen(f *testing.F) {
	k, err := pawlcodec.NewKey("k1", bytes.Repeat([]byte{7}, 32))
	if err != nil {
		f.Fatal(err)
	}
	c := codec(f, pawlcodec.Options{Compress: true, Keys: pawlcodec.Keys(k), Store: true})
	packed := codec(f, pawlcodec.Options{Compress: true, Store: true})
	stored := codec(f, pawlcodec.Options{Store: true})
	small, large := json(`{"card":"4242"}`), json(`"`+string(bytes.Repeat([]byte("ab"), 40<<10))+`"`)
	for _, by := range []*sealing.Codec{c, packed, stored} {
		f.Add(by.Seal(nil, small).Data, []byte(nil))
		f.Add(by.Seal([]byte("place"), large).Data, []byte(nil))
		if p, o := by.SealStored(sealing.ByClient, large); o != nil {
			f.Add(p.Data, o.Body)
			f.Add(p.Data, o.Body[1:])
		}
	}
	f.Add([]byte{1, 4, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, []byte(nil))                                                // the name of a reference has 2^64 bytes
	f.Add([]byte{1, 2, 2, 'k', '1'}, []byte(nil))                                                                                   // no salt
	f.Add([]byte{1, 1, 0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0, 0}, []byte(nil))              // announces 2^64 bytes
	f.Add(reference(sealing.ByClient+"."+"00112233445566778899aabbccddeeff", 3, 64<<20, []byte("abc")), []byte("abc"))              // opens to less than it announces
	f.Add(reference("../"+sealing.ByOrchestrator+"."+"00112233445566778899aabbccddeeff", 3, 3, []byte("\x01a,")), []byte("\x01a,")) // a name outside its role
	f.Fuzz(func(t *testing.T, data, object []byte) {
		p := history.Payload{Type: history.TypeSealed, Data: data}
		before := bytes.Clone(data)
		load := func(name string, _, _ int) ([]byte, error) {
			if name != sealing.Name(p) || name == "" {
				t.Errorf("loads %q, and refers to %q", name, sealing.Name(p))
			}
			return object, nil
		}
		opened, err := c.OpenWith(load, p)
		if !bytes.Equal(data, before) {
			t.Error("Open changed the sealed bytes")
		}
		if len(sealing.Describe(p)) > 1000 {
			t.Errorf("described in %d bytes", len(sealing.Describe(p)))
		}
		if err != nil {
			checkOpenError(t, err)
			return
		}
		if n, room := len(opened.Type)+len(opened.Data), max(sealing.OpenedSize(p), maxWithoutStore); n > room {
			t.Errorf("opened to %d bytes, at most %d are allowed", n, room)
		}
		if err := c.CanOpen(p); err != nil {
			t.Errorf("opened, and CanOpen returns %v", err)
		}
		if again, err := c.Open(c.Seal(nil, opened)); err != nil || !same(again, opened) && opened.Type != history.TypeSealed {
			t.Errorf("%.100q became %.100q, %v", opened.Data, again.Data, err)
		}
		if _, err := (*sealing.Codec)(nil).Open(p); err != nil { // a process without keys and without a store
			checkOpenError(t, err)
		}
	})
}

func checkOpenError(t *testing.T, err error) {
	t.Helper()
	if !sealing.Unavailable(err) && !errors.Is(err, sealing.ErrDamaged) || len(err.Error()) > 1000 {
		t.Errorf("%d bytes: %.200v", len(err.Error()), err)
	}
}

// reference returns a sealed payload that refers to an object with the body.
func reference(name string, size, opens uint64, body []byte) []byte {
	sum := sha256.Sum256(body)
	b := append(effectid.AppendText([]byte{1, 4}, name), binary.AppendUvarint(binary.AppendUvarint(nil, size), opens)...)
	return append(b, sum[:]...)
}
