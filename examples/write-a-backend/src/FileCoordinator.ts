import { type CoordinatorOptions, StoreCoordinator } from '@botmesh/core/spi';
import { DocumentStore } from './DocumentStore.js';
import { FileDocument } from './FileDocument.js';

export interface FileCoordinatorOptions extends CoordinatorOptions {
  /** On a disk of this host, the same for all replicas. */
  folder: string;
}

/** The whole contract between processes of one host, in the files of one folder. */
export class FileCoordinator extends StoreCoordinator {
  constructor({ folder, ...options }: FileCoordinatorOptions) {
    super({ ...options, stores: [new DocumentStore(new FileDocument(folder))] });
  }
}
