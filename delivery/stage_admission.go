package delivery

import "context"

// takeAdmission takes those out for whom the webhook's limits leave no POST.
func takeAdmission(ctx context.Context, r *run, due []*item) ([]*item, error) {
	granted, reason, wait := r.admit.Admit(ctx, r.hook, len(due))
	r.admitted = granted
	if granted == len(due) {
		return due, nil
	}
	return due[:granted], r.keepOut(ctx, due[granted:], reason, wait)
}

// returnAdmission gives back what was taken for POSTs that are not made; the others give
// their slots back when they have ended.
func (r *run) returnAdmission(ctx context.Context) {
	if unused := r.admitted - r.started; unused > 0 {
		r.admit.Done(r.hook.ID, unused)
	}
	if r.started == 0 && r.pass.circuit != "" {
		r.breakers.Return(context.WithoutCancel(ctx), r.pass.circuit, r.pass.ticket)
	}
}
