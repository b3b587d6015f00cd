//go:build share

package share

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
)

func mib(bytes int64) string { return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20)) }

// prose is text of about so many bytes that compresses as English does: words of which few are common and many are rare. The
// same seed gives the same text.
func prose(seed string, bytes int) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(seed))
	random := rand.New(rand.NewPCG(hash.Sum64(), 1))
	pick := rand.NewZipf(random, 1.07, 4, uint64(len(vocabulary)-1))
	var out strings.Builder
	for out.Len() < bytes {
		out.WriteString(vocabulary[pick.Uint64()])
		switch random.IntN(12) {
		case 0:
			out.WriteString(". ")
		case 1:
			out.WriteString(", ")
		default:
			out.WriteByte(' ')
		}
	}
	return out.String()
}

// vocabulary is made of syllables; what is common is short.
var vocabulary = func() (words []string) {
	random := rand.New(rand.NewPCG(1, 1))
	syllables := strings.Fields("a al an ar as ba be con da de di el en er es fi ge ha he in ing is it la le li lo ma me mi na ne no of on or pa per pre ra re ri ro sa se si sta te ter the ti to tion tra tu un ur ver vi wa we")
	for i := range 6000 {
		word := ""
		for range 1 + min(3, i/60) - random.IntN(2)*min(1, i/60) {
			word += syllables[random.IntN(len(syllables))]
		}
		words = append(words, word)
	}
	return words
}()
