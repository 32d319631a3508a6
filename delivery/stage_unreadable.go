package delivery

import (
	"context"

	"waypost"
)

// holdUnreadable holds back items whose stored message cannot be decrypted: this process
// may lack a key that other processes have, or that comes back.
func holdUnreadable(ctx context.Context, r *run, due []*item) ([]*item, error) {
	var going, unreadable []*item
	for _, it := range due {
		if it.stored.Unreadable == nil {
			going = append(going, it)
			continue
		}
		unreadable = append(unreadable, it)
		r.log.Warn("a message cannot be read", "message", it.stored.MessageID, "enrollment", it.EnrollmentID, "error", it.stored.Unreadable)
	}
	return going, r.holdBack(ctx, unreadable, waypost.DeferUnreadable, 0)
}
