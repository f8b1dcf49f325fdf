package settings

import "testing"

func TestGarbageBeyondTheDefaultIsBounded(t *testing.T) {
	for _, c := range []struct {
		live, headroom uint64
		want           int
	}{
		{0, gcHeadroom, 400}, {10 << 20, gcHeadroom, 400}, {256 << 20, gcHeadroom, 200}, {1 << 30, gcHeadroom, 125},
		{1 << 40, gcHeadroom, 100}, {64 << 20, 32 << 20, 150},
	} {
		if got := gcPercent(c.live, c.headroom); got != c.want {
			t.Errorf("%d bytes live, headroom %d: %d percent, want %d", c.live, c.headroom, got, c.want)
		}
	}
}

func TestMemoryLimitOfTheContainerIsRead(t *testing.T) {
	for text, want := range map[string]int64{"1000000000\n": 900000000, "max\n": 0, "": 0, "-1": 0} {
		got, ok := containerLimit(text)
		if ok != (want > 0) || ok && got != want {
			t.Errorf("%q: %d, %t", text, got, ok)
		}
	}
}
