package journey

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// SplitArm returns the index of the arm of a split that a lead takes; -1 if no
// weight is above zero. It depends on the arguments alone, so that a lead takes
// the same arm when it enters again and in another version with the same
// weights, and other arms at other splits, independently. Of many leads each arm
// gets its weight's share, up to chance.
//
// The first eight bytes of the SHA-256 of "waypost split", the journey, the node
// and the lead's id in decimal, joined by zero bytes, are a fraction between 0
// and 1; the arms divide that range in their order by their weights. So changed
// weights move as few leads as can be: from 50/50 to 60/40, a tenth.
func SplitArm(journeyID, nodeID string, leadsID int64, weights []int) int {
	var total uint64
	for _, w := range weights {
		total += uint64(max(w, 0))
	}
	if total == 0 {
		return -1
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "waypost split\x00%s\x00%s\x00%d", journeyID, nodeID, leadsID))
	at, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:]), total)
	for i, w := range weights {
		share := uint64(max(w, 0))
		if at < share {
			return i
		}
		at -= share
	}
	return -1 // not reached: at is below total
}

// armReason says which arm of the split it is and how large.
func (n Node) armReason(arm int) string {
	if arm < 0 || arm >= len(n.Arms) {
		return ""
	}
	total := 0
	for _, weight := range n.Weights() {
		total += max(weight, 0)
	}
	return fmt.Sprintf("arm %d: weight %d of %d", arm+1, n.Arms[arm].Weight, total)
}
