package pawlcodec_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

// An orchestrator, a worker and a client take the codec as Config.Codec and Options.Codec.
func ExampleNew() {
	key, err := pawlcodec.NewKey("2026-11", make([]byte, 32)) // in production: random bytes from a secret store
	if err != nil {
		panic(err)
	}
	codec, err := pawlcodec.New(pawlcodec.Options{Compress: true, Keys: pawlcodec.Keys(key)})
	if err != nil {
		panic(err)
	}
	sealed := codec.Seal(nil, history.Payload{Type: history.TypeJSON, Data: []byte(`{"card":"4242"}`)})
	opened, err := codec.Open(sealed)
	fmt.Println(string(opened.Data), err)
	// Output: {"card":"4242"} <nil>
}

// A key has an id, which payloads contain, and 32 bytes of a secret, which it never prints.
func ExampleNewKey() {
	key, err := pawlcodec.NewKey("2026-11", make([]byte, 32)) // in production: random bytes from a secret store
	fmt.Println(key, err)
	_, err = pawlcodec.NewKey("2026-11", []byte("too short"))
	fmt.Println(err != nil)
	// Output:
	// key 2026-11 <nil>
	// true
}

// A key is rotated by putting another one in front of it: payloads sealed with the earlier key can still be opened.
func ExampleKeys() {
	key := func(id string, b byte) pawlcodec.Key {
		k, err := pawlcodec.NewKey(id, bytes.Repeat([]byte{b}, 32)) // in production: random bytes from a secret store
		if err != nil {
			panic(err)
		}
		return k
	}
	codec := func(keys pawlcodec.KeyProvider) *pawlcodec.Codec {
		c, err := pawlcodec.New(pawlcodec.Options{Keys: keys})
		if err != nil {
			panic(err)
		}
		return c
	}
	october, november := key("2026-10", 1), key("2026-11", 2)
	sealed := codec(pawlcodec.Keys(october)).Seal(nil, history.Payload{Type: history.TypeJSON, Data: []byte(`"4242"`)})

	opened, err := codec(pawlcodec.Keys(november, october)).Open(sealed)
	fmt.Println(string(opened.Data), err)
	_, err = codec(pawlcodec.Keys(november)).Open(sealed)
	_, missing := errors.AsType[*pawlcodec.KeyError](err)
	fmt.Println(missing)
	// Output:
	// "4242" <nil>
	// true
}

// A file may be changed while the process runs, such as a mounted secret.
func ExampleFileKeys() {
	dir, err := os.MkdirTemp("", "keys")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "keys")
	secret := base64.StdEncoding.EncodeToString(make([]byte, 32)) // random bytes
	if err := os.WriteFile(file, []byte("# the first is the current one\n2026-11="+secret+"\n2026-10="+secret+"\n"), 0o600); err != nil {
		panic(err)
	}
	keys, err := pawlcodec.FileKeys(file)
	if err != nil {
		panic(err)
	}
	current, err := keys.Current()
	fmt.Println(current, err)
	// Output: key 2026-11 <nil>
}

func ExampleEnvKeys() {
	secret := base64.StdEncoding.EncodeToString(make([]byte, 32)) // random bytes
	if err := os.Setenv("SHOP_KEYS", "2026-11="+secret); err != nil {
		panic(err)
	}
	keys, err := pawlcodec.EnvKeys("SHOP_KEYS")
	if err != nil {
		panic(err)
	}
	_, err = keys.Key("2025-11")
	fmt.Println(err)
	// Output: no such key
}
