package pawlcodec_test

import (
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
