package pawlcodec_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/pkg/client"

	"github.com/pawlrun/pawl/pawlcodec"
)

var (
	ctx = context.Background()
	nc  *nats.Conn
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
	c, err := client.New(ctx, nc, client.Options{Codec: codec})
	if err != nil {
		panic(err)
	}
	defer c.Close()
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
	keys := pawlcodec.Keys(key("2026-11", 2), key("2026-10", 1))
	current, err := keys.Current()
	fmt.Println(current, err)
	earlier, err := keys.Key("2026-10")
	fmt.Println(earlier, err)
	_, err = keys.Key("2025-11")
	fmt.Println(errors.Is(err, pawlcodec.ErrNoKey))
	// Output:
	// key 2026-11 <nil>
	// key 2026-10 <nil>
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
