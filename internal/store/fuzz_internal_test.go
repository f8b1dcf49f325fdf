package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/eventcodec"
)

// FuzzRecord parses the record of an instance with arbitrary fields. Every error must match ErrCorrupt and have a bounded text.
func FuzzRecord(f *testing.F) {
	whole := "name=o\x00head=h\x00status=running\x00orig=1-2\x00execution=1\x00events=3\x00created=1\x00updated=1\x00"
	f.Add(whole)
	for _, more := range []string{"parent=p\x00", "unread=[[[[", "prod=1.2\x00pub=9.9", "custom.version=1\x00custom.type=json\x00custom.data={", "orig=", "events=-1", "r:t=", "held=a/b", "execution=99999999999999999999"} {
		f.Add(whole + more)
	}
	f.Add(whole + "unread=" + strings.Repeat("[", 20_000))
	f.Fuzz(func(t *testing.T, text string) {
		fields := map[string]string{}
		for one := range strings.SplitSeq(text, "\x00") {
			k, v, _ := strings.Cut(one, "=")
			fields[k] = v
		}
		if _, err := parseRecord(fields); err != nil && (!errors.Is(err, eventcodec.ErrCorrupt) || len(err.Error()) > 2000) {
			t.Errorf("%d bytes: %.2000v", len(err.Error()), err)
		}
	})
}
