package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/pkg/history"
)

func TestArgumentMayNameAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(file, []byte(`{"id":"o-1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := input("@" + file)
	if err != nil || string(p.Data) != `{"id":"o-1"}` || p.Type != history.TypeJSON {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := input("@" + file + ".missing"); err == nil {
		t.Error("no error")
	}
}

func TestOversizedFileIsNotReadToItsEnd(t *testing.T) {
	if _, err := input("@/dev/zero"); err == nil || !strings.Contains(err.Error(), "the maximum") {
		t.Error(err)
	}
}
