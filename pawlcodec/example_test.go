package pawlcodec_test

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

// An orchestrator, a worker and a client take the codec as Config.Codec and Options.Codec.
func ExampleNew() {
	key, err := pawlcodec.NewKey("2026-11", make([]byte, 32)) // random bytes, of a secret store
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

// A key is replaced by another one in front of it: what was sealed with the earlier one can still be opened.
func ExampleKeys() {
	key := func(id string, b byte) pawlcodec.Key {
		k, err := pawlcodec.NewKey(id, bytes.Repeat([]byte{b}, 32)) // random bytes, of a secret store
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
