package build

import "testing"

func TestLinkedVersionIsUsed(t *testing.T) {
	defer func() { version = "" }()
	if got := Read(); got.Go == "" || got.Version == "" || got.Revision == "" {
		t.Errorf("%+v", got)
	}
	version = "v1.2.3"
	if got := Read(); got.Version != version {
		t.Errorf("%+v", got)
	}
}
